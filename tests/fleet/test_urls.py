"""Cores at URLs, by a server on loopback: the answer is the file's own, and no server has more than its share."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Callable, Iterator, Optional

import pytest
from schemas import valid
from shell_door import ARENASCOPE, arenascope
from subjects import Subject
from terminal import Terminal

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp, by which fsspec reads http, is not installed")
MIB = 1 << 20
ENOUGH = 256
"""MiB that a server sends where it has no end."""


class Store:
    """One file, of `says` bytes by the server's word, of which it sends `sends` as they are asked for."""

    def __init__(self, says: Optional[int], sends: Callable[[], Iterator[bytes]]) -> None:
        self.sent = 0
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.send_response(404 if self.path == "/cores" else 200)
                if says is not None:
                    self.send_header("Content-Length", str(says))
                self.end_headers()

            def do_GET(self) -> None:
                # the end of the connection is the end of the body
                self.send_response(404 if self.path == "/cores" else 200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                try:
                    for piece in sends():
                        store.sent += self.wfile.write(piece)
                except OSError:
                    pass  # whoever asked has enough

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = f"http://{self.host}/core"


@contextmanager
def serving(says: Optional[int], sends: Callable[[], Iterator[bytes]]) -> Iterator[Store]:
    store = Store(says, sends)
    threading.Thread(target=store.server.serve_forever, daemon=True).start()
    try:
        yield store
    finally:
        store.server.shutdown()
        store.server.server_close()


def endless() -> Iterator[bytes]:
    for _ in range(ENOUGH):
        yield b"x" * MIB


def copied(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return arenascope(*words, status=None, variables={"TMPDIR": str(folder)})


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("urls") / "core"
    with Subject("bins") as subject:
        path.write_bytes(subject.kernel_core().read_bytes())
    return path


def test_the_answer_is_that_of_the_file(core: Path, tmp_path: Path) -> None:
    data = core.read_bytes()
    expected = valid(json.loads(copied("arenas", core, "--json", folder=tmp_path).stdout))
    with serving(len(data), lambda: iter([data])) as store:
        done = copied("arenas", store.url, "--json", folder=tmp_path)
        (line,) = done.stderr.splitlines()
    assert valid(json.loads(done.stdout)) == expected
    assert (done.returncode, store.url in line, f"{len(data):,}" in line) == (0, True, True)
    assert [*tmp_path.iterdir()] == []


def one_line(store: Store, folder: Path) -> str:
    done = copied("arenas", store.url, folder=folder)
    line = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout) == (2, "")
    assert store.url in line
    assert [*folder.iterdir()] == []
    return line


def test_more_than_was_announced_is_not_taken(tmp_path: Path) -> None:
    with serving(MIB, endless) as store:
        assert "more came than the 1,048,576 bytes" in one_line(store, tmp_path)
        assert store.sent < ENOUGH * MIB // 4


def test_less_than_was_announced_is_no_core(tmp_path: Path) -> None:
    with serving(MIB, lambda: iter([b"\x7fELF"])) as store:
        assert "4 of its 1,048,576 bytes came" in one_line(store, tmp_path)


def test_a_size_that_is_unknown_or_has_no_room_is_not_begun(tmp_path: Path) -> None:
    with serving(None, endless) as store:
        assert "does not say how large it is" in one_line(store, tmp_path)
    with serving(1 << 60, endless) as store:
        assert "not enough room" in one_line(store, tmp_path)
        assert store.sent == 0


def test_one_line_says_why_it_cannot_be_had(tmp_path: Path) -> None:
    with serving(0, lambda: iter([])) as store:
        missing = store.url + "s"
        done = copied("arenas", missing, folder=tmp_path)
        assert (done.returncode, done.stderr) == (
            2,
            f"arenascope arenas: cannot copy {missing}: Not Found\n",
        )
    done = copied("arenas", store.url, folder=tmp_path)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, line.count(store.url)) == (2, 1)
    assert "onnect" in line


def test_a_list_of_files_has_an_end(tmp_path: Path) -> None:
    with serving(None, endless) as store:
        done = copied("fleet", f"http://{store.host}/*", folder=tmp_path)
        (line,) = done.stderr.splitlines()
        assert done.returncode == 2
        assert f"{store.host} answers with more than 16 MiB" in line
        assert store.sent < ENOUGH * MIB // 4


def test_ctrl_c_ends_a_copy_in_sight(tmp_path: Path) -> None:
    def slow() -> Iterator[bytes]:
        while True:
            yield b"x" * (MIB // 4)
            time.sleep(0.1)

    with serving(ENOUGH * MIB, slow) as store:
        argv = [*ARENASCOPE, "arenas", store.url]
        with Terminal(argv, variables={"TMPDIR": str(tmp_path)}) as terminal:
            shown = terminal.wait_for("%")
            terminal.process.send_signal(signal.SIGINT)
            shown += terminal.rest()
            assert terminal.process.returncode == 130
    assert f"copying {store.url}: " in shown
    assert shown.endswith("arenascope: stopped\r\n")
    assert [*tmp_path.iterdir()] == []
