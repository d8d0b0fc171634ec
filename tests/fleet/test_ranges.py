"""Cores at URLs: of a store that gives parts only what a command asks for is fetched, and the answer is the same."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import pytest
from subjects import Subject

from arenascope.cli.engines import remote_core
from arenascope.cli.engines.which_cores import Core, find_cores
from arenascope.cli.engines.worker import Result, Task, look_at

pytestmark = pytest.mark.xdist_group("ranges")
fsspec: Any = pytest.importorskip("fsspec", reason="fsspec is not installed")
MIB = 1 << 20
PART = 8
"""One in so many of the file's bytes at most."""
Body = Callable[[bytes, int, int], Optional[bytes]]


def honest(data: bytes, start: int, end: int) -> bytes:
    return data[start:end]


class Store:
    """One file, by HTTP."""

    def __init__(self, data: bytes) -> None:
        self.data, self.body, self.tag = data, honest, "1"
        self.sent = self.requests = 0
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self._answer(200, store.data, body=False)

            def do_GET(self) -> None:
                store.requests += 1
                part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
                start, end = (int(part[1]), int(part[2]) + 1) if part else (0, len(store.data))
                body = store.body(store.data, start, end) if part else None
                if body is None:
                    self._answer(200, store.data)
                else:
                    self._answer(206, body, f"bytes {start}-{end - 1}/{len(store.data)}")

            def _answer(self, status: int, data: bytes, part: str = "", body: bool = True) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("ETag", f'"{store.tag}"')
                if part:
                    self.send_header("Content-Range", part)
                self.end_headers()
                at = 0
                try:
                    while body and at < len(data):
                        at += self.wfile.write(data[at : at + MIB // 4])
                except OSError:
                    pass  # whoever asked has enough
                store.sent += at

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/core"

    def core(self) -> Core:
        """As fleet finds it, which transfers nothing of it."""
        (core,) = find_cores([self.url])
        assert core.bytes == len(self.data)
        assert self.tag in core.stamp
        assert self.sent == 0
        return core


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without holes, as what was copied from anywhere."""
    path = tmp_path_factory.mktemp("ranges") / "core"
    with Subject("pinned", "main", "60") as subject:
        path.write_bytes(subject.kernel_core().read_bytes())
    return path


@pytest.fixture
def store(core: Path) -> Iterator[Store]:
    pytest.importorskip("aiohttp", reason="aiohttp, by which fsspec reads http, is not installed")
    store = Store(core.read_bytes())
    thread = threading.Thread(target=store.server.serve_forever, daemon=True)
    thread.start()
    yield store
    store.server.shutdown()
    store.server.server_close()
    thread.join()


def look(core: Core, command: str) -> Result:
    return look_at(Task(command, "arenascope"), core)


def document(path: Path, command: str) -> dict[str, Any]:
    told = look(Core(str(path), 0, ""), command).document
    assert told is not None
    assert told.get("error") is None
    return dict(told)


@pytest.mark.parametrize("command", ["arenas", "bins", "report"])
def test_the_answer_is_that_of_the_file(command: str, store: Store, core: Path) -> None:
    expected = document(core, command)
    there = store.core()
    result = look(there, command)
    assert result.error is None
    assert result.document == {**expected, "subject": there.url}
    if command != "report":  # which looks for zeros in all that was dumped
        assert 0 < store.sent < len(store.data) // PART
    assert store.sent <= len(store.data) + MIB


def test_a_store_without_ranges_gives_it_whole(store: Store, core: Path) -> None:
    store.body = lambda data, start, end: None
    there = store.core()
    result = look(there, "arenas")
    assert result.document == {**document(core, "arenas"), "subject": there.url}
    assert store.sent >= len(store.data)


def test_a_store_that_ignores_where_a_part_begins_is_not_believed(store: Store, core: Path) -> None:
    store.body = lambda data, start, end: data[: end - start]
    there = store.core()
    assert look(there, "arenas").document == {**document(core, "arenas"), "subject": there.url}


def later(store: Store, body: Body, after: int = 3) -> None:
    """Honest for so many requests: what it is asked when it is opened, and the first pieces."""
    store.body = lambda data, start, end: (honest if store.requests <= after else body)(data, start, end)


@pytest.mark.parametrize(
    "body",
    [
        lambda data, start, end: data[start : end - 1],
        lambda data, start, end: b"",
        lambda data, start, end: None,
    ],
    ids=["short", "empty", "whole"],
)
def test_what_is_short_is_an_error(body: Body, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_core, "PAUSES", (0.01,))
    there = store.core()
    later(store, body)
    result = look(there, "arenas")
    assert result.document is None
    assert result.lost
    assert result.error is not None
    assert result.error.startswith(f"{there.url}: ")
    assert "\n" not in result.error


def test_what_fails_once_is_asked_for_again(store: Store, core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_core, "PAUSES", (0.01,))
    there = store.core()
    store.body = lambda data, start, end: data[start : end - (store.requests == 4)]
    assert look(there, "arenas").document == {**document(core, "arenas"), "subject": there.url}


def test_a_file_that_changes_meanwhile_is_an_error(store: Store) -> None:
    there = store.core()

    def changed(data: bytes, start: int, end: int) -> bytes:
        store.tag = "2"
        return data[start:end]

    later(store, changed)
    result = look(there, "arenas")
    assert result.document is None
    assert "changed" in str(result.error)


def test_one_that_has_another_size_by_now_is_an_error(store: Store) -> None:
    there = store.core()
    store.data += bytes(MIB)
    result = look(there, "arenas")
    assert result.document is None
    assert "changed" in str(result.error)


def test_other_stores_have_ranges_as_well(core: Path) -> None:
    with fsspec.open("memory://ranges/core", "wb") as file:
        file.write(core.read_bytes())
    (there,) = find_cores(["memory://ranges/core"])
    with remote_core.fetched(there) as here:
        assert here.held is not None
    assert look(there, "arenas").document == {**document(core, "arenas"), "subject": there.url}


def test_a_packed_core_and_a_small_one_are_copied(core: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fsspec.open("memory://ranges/packed", "wb", compression="gzip") as file:
        file.write(core.read_bytes())
    (packed,) = find_cores(["memory://ranges/packed"])
    monkeypatch.setattr(remote_core, "LEAST", 0)
    with remote_core.fetched(packed) as here:
        assert here.held is None
        copy = Path(here.path)
        assert copy.stat().st_size == packed.bytes
    assert not copy.exists()
    monkeypatch.setattr(remote_core, "LEAST", len(core.read_bytes()) + 1)
    (there,) = find_cores(["memory://ranges/core"])
    with remote_core.fetched(there) as here:
        assert here.held is None
