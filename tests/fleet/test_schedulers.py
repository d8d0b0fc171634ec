"""arenascope fleet, on a real cluster of this machine's processors: lines are what the command says of each core."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Iterator, Optional

import pytest
from schemas import valid
from shell_door import ARENASCOPE, arenascope, begin
from subjects import Subject
from terminal import Terminal

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("engines")]
SECONDS = 300
MANY = 40
NO_END = 1000
"""So many take longer than it takes to find who reads them."""
AT_ONCE = 20.0
WAITS = re.compile("(starting|connecting to) .* …")
LIBRARIES = {"dask": "distributed", "ray": "ray"}


def start(*words: object) -> subprocess.Popen[str]:
    return begin(*words, start_new_session=True)


def fleet(status: int, *words: object) -> tuple[dict[str, dict[str, Any]], str]:
    """Documents by their subject, and what was said besides."""
    process = start("fleet", *words)
    try:
        told, said = process.communicate(timeout=SECONDS)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == status, said
    return documents(told), said


def documents(told: str) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in told.splitlines()]
    by_subject = {each["subject"]: each for each in found}
    assert len(by_subject) == len(found)
    return by_subject


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two cores, one of them packed, one that was cut, and a file that is none."""
    folder = tmp_path_factory.mktemp("cores")
    (folder / "inside").mkdir()
    for path, words in ((folder / "core.1", ("bins",)), (folder / "inside" / "core.2", ("hoard", "2", "12"))):
        with Subject(*words) as subject:
            shutil.move(subject.kernel_core(), path)
    subprocess.run(["gzip", "-1", str(folder / "inside" / "core.2")], check=True)
    (folder / "core.cut").write_bytes((folder / "core.1").read_bytes()[:10])
    (folder / "notes.txt").write_text("not a core")
    yield folder
    shutil.rmtree(folder)


def has(engine: str) -> None:
    pytest.importorskip(LIBRARIES[engine], reason=f"{LIBRARIES[engine]} is not installed")


@pytest.mark.parametrize("engine", LIBRARIES)
def test_lines_are_what_the_command_says(engine: str, cores: Path, tmp_path: Path) -> None:
    has(engine)
    page = tmp_path / "fleet.html"
    found, _ = fleet(2, cores, "--engine", engine, "--workers", "2", "--jsonl", "--html", page)
    packed = cores / "inside" / "core.2.gz"
    assert set(found) == {str(each) for each in (cores / "core.1", packed, cores / "core.cut")}
    assert "cut short" in found[str(cores / "core.cut")]["error"]
    for path in (cores / "core.1", packed):
        alone = arenascope("report", path, "--json", "--quick", status=None)
        assert found[str(path)] == {"subject": str(path), **valid(json.loads(alone.stdout))}
        assert f'{{"subject":"{path}"' in page.read_text()


def test_a_killed_worker_loses_nothing(cores: Path, tmp_path: Path) -> None:
    has("dask")
    many = tmp_path / "many"
    many.mkdir()
    for number in range(MANY):
        os.link(cores / "core.1", many / f"core.{number}")
    process = start("fleet", many, "--engine", "dask", "--workers", "2", "--command", "check")
    os.kill(await_children(process, many)[0], signal.SIGKILL)
    told, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    found = documents(told)
    assert set(found) == {str(path) for path in many.iterdir()}
    assert [each["subject"] for each in found.values() if each.get("error") is not None] == []


def await_children(process: subprocess.Popen[str], folder: Optional[Path]) -> list[int]:
    deadline = time.monotonic() + SECONDS
    while not (found := children_of(process.pid, folder)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def children_of(pid: int, folder: Optional[Path]) -> list[int]:
    """Processes that it started, and these; with a folder those that have a file of it open."""
    found: list[int] = []
    # whoever has ended meanwhile has neither threads nor children
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                for child in map(int, (task / "children").read_text().split()):
                    found += [*([child] if not folder or reads(child, folder) else []), *children_of(child, folder)]
    return found


def reads(pid: int, folder: Path) -> bool:
    try:
        return any(os.readlink(each).startswith(f"{folder}/") for each in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def test_what_lies_elsewhere_is_copied_and_removed(cores: Path, tmp_path: Path) -> None:
    """Here elsewhere is inside an archive: fsspec has that as a file system."""
    has("dask")
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(cores / "core.1", "core.1")
    url = f"zip://core.1::file://{tmp_path / 'all.zip'}"
    found, _ = fleet(0, url, "--workers", "1")
    assert set(found) == {url}
    assert {part["part"]: part["bytes"] for part in found[url]["parts"]}["returnable"] > 1 << 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/nowhere/at/all"], "/nowhere/at/all"),
        (["/nowhere/*.core"], "nothing matches /nowhere/*.core"),
        (["core", "--command", "nonsense"], "nonsense"),
        (["core", "--workers", "0"], "--workers 0"),
        (["core", "--address", "127.0.0.1:1"], "127.0.0.1:1"),
    ],
)
def test_one_line_says_what_is_wrong(words: list[str], said: str, cores: Path) -> None:
    has("dask")
    named = {"core": str(cores / "core.1")}
    found, lines = fleet(2, *(named.get(word, word) for word in words))
    *before, line = lines.splitlines()
    assert found == {}
    assert all(WAITS.fullmatch(each) for each in before)
    assert len(before) == ("--address" in words)
    assert line.startswith("arenascope fleet: ")
    assert said in line


def test_an_engine_that_does_not_start_is_no_fault_of_ours(cores: Path, monkeypatch: Any) -> None:
    has("dask")
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1ms")
    found, lines = fleet(2, cores, "--engine", "dask", "--workers", "1")
    waits, line = lines.splitlines()
    assert found == {}
    assert WAITS.fullmatch(waits)
    assert line.startswith("arenascope fleet: Dask")


@pytest.mark.parametrize("at_work", [False, True])
@pytest.mark.parametrize("engine", LIBRARIES)
def test_an_interrupt_is_one_line(engine: str, at_work: bool, cores: Path, tmp_path: Path) -> None:
    """A terminal sends it to each process that the engine started, too: while these are started, and at work."""
    has(engine)
    many = tmp_path / "many"
    many.mkdir()
    for number in range(NO_END):
        os.link(cores / "core.1", many / f"core.{number}")
    how = ["--engine", engine, "--workers", "2", "--command", "check"]
    process = start("fleet", many, *how)
    await_children(process, many if at_work else None)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    waits, stopped = said.splitlines()
    assert WAITS.fullmatch(waits)
    assert (process.returncode, stopped) == (130, "arenascope: stopped")


@pytest.mark.parametrize("engine", LIBRARIES)
def test_a_cluster_that_does_not_answer_is_waited_for_in_sight(engine: str, cores: Path) -> None:
    """Ray's library neither gives up nor hears Ctrl-C then."""
    has(engine)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        words = ["fleet", cores, "--engine", engine, "--address", where]
        with Terminal([*ARENASCOPE, *words], columns=200) as terminal:
            shown = terminal.wait_for(": 2 s")
            os.killpg(terminal.process.pid, signal.SIGINT)
            began = time.monotonic()
            shown += terminal.rest()
            assert terminal.process.returncode == 130
        assert time.monotonic() - began < AT_ONCE
    moments = re.findall(r"connecting to (\w+) at ([\d.:]+): (\d+) s", shown)
    assert {name.lower() for name, _, _ in moments} == {engine}
    assert {at for _, at, _ in moments} == {where}
    assert {int(seconds) for _, _, seconds in moments} >= {0, 1, 2}
    assert shown.endswith("\rarenascope: stopped\r\n")
