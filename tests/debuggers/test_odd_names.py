"""A program whose name is no text: bytes that are no UTF-8, a newline, an escape sequence, a mark that turns what
follows. All doors show it alike, and so do pages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Iterator

import pytest
from doors import DOORS, NEWEST, Live
from looks import Door, opened
from subjects import fixture_program

pytestmark = pytest.mark.xdist_group("odd names")

NAME = "caf\udce9\n\x1b[7m\u202ex".encode("utf-8", "surrogateescape")
SHOWN = "caf\ufffd\ufffd\ufffd[7m\ufffdx"
STEERS = "[\ud800-\udfff\0-\x08\x0b-\x1f\x7f\u202a-\u202e]"
COMMANDS = [
    "threads --json",
    "arenas --json",
    "report --json",
    "threads",
    "report --full",
    "version",
    "types",
    "containers",
    "mappings",
    "mmapped",
    "check",
]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("odd")
    program = Path(os.fsdecode(os.fsencode(folder / "x")[:-1] + NAME))
    shutil.copy(fixture_program("bins"), program)
    process = subprocess.Popen([program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready")
        yield Live(process.pid, program)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("door", [DOORS[name] for name in NEWEST], ids=lambda door: door.name)
def test_a_name_that_is_no_text(door: Door, odd: Live) -> None:
    threads, arenas, report, *texts = opened(door).run(odd, COMMANDS)
    names = {each["tid"]: each["name"] for each in threads.json()["threads"]}
    assert names[odd.pid] == SHOWN
    assert names[odd.pid] in {each["name"] for each in arenas.json()["arenas"][0]["threads"]}
    assert report.json()["complete"]
    for outcome in texts:
        assert outcome.error is None, outcome.error
        assert not re.search(STEERS, outcome.text), outcome.command
    assert SHOWN in texts[0].text


@pytest.mark.parametrize("command", ["report", "map"])
def test_a_page(command: str, odd: Live, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    (done,) = DOORS["shell"].run(odd, [f"{command} --html {page}"])
    assert done.error is None, done.error
    # what is escaped for JSON would be as it was again in the browser
    text = page.read_text()
    assert not re.search(STEERS, text)
    assert not re.search(r"\\u(202[a-e]|d[89a-f])", text)
