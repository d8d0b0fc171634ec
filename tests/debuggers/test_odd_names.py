"""A program whose name is no text: bytes that are no UTF-8, a newline, an escape sequence, a mark that turns what
follows. All doors show it alike, and so do pages."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Iterator

import pytest
from doors import DOORS, NEWEST, Live
from looks import Door, opened, plain_environment
from marks import full_after
from shell_door import ARENASCOPE
from subjects import Started, compiled, fixture_program

from arenascope.cli.main import main
from arenascope.cli.shell import ShellDoor

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
    with Started(program, folder) as process:
        yield Live(process.pid, program)


@pytest.mark.parametrize("door", full_after(1, [DOORS[name] for name in NEWEST[::-1]]), ids=lambda door: door.name)
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


HIDES = "\x1b[8m"
"""What follows is not seen on a terminal."""
MARKED = HIDES.replace("\x1b", "\ufffd")
HOSTILE = Path(__file__).with_name("odd_names.c").read_text()
LOOKS = [
    *("types --limit 0", "types --owners", "owners", "owners --by type", "leaks", "containers", "threads", "pins"),
    *("report --full", "report --types --owners", "refs {at}", "owner {at}", "chunk {at}", "mappings", "mmapped"),
    *("chunks --type *node* --limit 3", "chunks --summary", "arenas", "heaps", "check", "map", "trim", "version"),
    *("types node\x1b[8m --values", "types nobody\x1b[8m --values", "refs node\x1b[8m", "types --rules {rules}"),
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A program in which the names of types, members, variables, its thread and its file hide what follows."""
    folder = tmp_path_factory.mktemp("hostile")
    built, program = compiled(HOSTILE, folder, "-g", "-O0", "-pthread"), folder / f"names{HIDES}"
    program.write_bytes(built.read_bytes().replace(b"QQQQ", HIDES.encode()))
    program.chmod(0o755)
    with Started(program) as process:
        yield Live(process.pid, program)


@pytest.mark.parametrize("door", full_after(1, [DOORS[name] for name in NEWEST[::-1]]), ids=lambda door: door.name)
def test_no_name_controls_the_terminal(door: Door, hostile: Live, tmp_path: Path) -> None:
    """On any screen, in hints, in errors."""
    rules = tmp_path / f"{HIDES}.rules"
    rules.write_text(f"node{HIDES}.nothing = lost{HIDES}\n")
    (found,) = opened(door).run(hostile, ["types --limit 0 --json"])
    rows = found.json()["types"]
    at = next(row["samples"][0] for row in rows if row["type"].startswith("node"))
    outcomes = opened(door).run(hostile, [each.format(at=at, rules=rules) for each in LOOKS])
    for outcome in outcomes:
        for said in (outcome.text, outcome.error or ""):
            assert not re.search(STEERS, said), (outcome.command, said)
    marked = {look.split(" ")[0] for look, outcome in zip(LOOKS, outcomes) if MARKED in outcome.text}
    assert {"types", "owners", "leaks", "containers", "threads", "report", "refs", "owner", "chunks"} <= marked


OWN = r"\x1b\[(?:[012]|3[0-7]|9[0-7])m"


@pytest.mark.full
@pytest.mark.parametrize("width", [60, 0])
def test_our_own_colours_are_the_only_codes(
    width: int, hostile: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = ShellDoor.style
    monkeypatch.setattr(ShellDoor, "style", lambda door: plain(door)._replace(colour=True, width=width))
    pid = str(hostile.pid)
    for words in (*LOOKS[:10], *LOOKS[13:20], f"top --once --limit 0 --exact {pid}", "watch --count 1 --lines"):
        name, *options = words.split()
        main([name, *([] if name == "top" else [pid]), *options])
        said = "".join(capsys.readouterr())
        assert re.search(OWN, said) or name == "watch", words
        assert not re.search(STEERS, re.sub(OWN, "", said)), words


def test_a_live_screen(hostile: Live) -> None:
    """Of watch and top, where what was drawn last stays on the terminal."""
    for words in ("watch --count 2 --interval 1 --types", "top --count 1 --limit 0 --exact"):
        command = shlex.join([*ARENASCOPE, *words.split(), str(hostile.pid)])
        done = subprocess.run(
            ["script", "-qec", command, "/dev/null"],
            env=plain_environment({"TERM": "xterm-256color"}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
        )
        assert b"\x1b[H" in done.stdout
        assert HIDES.encode() not in done.stdout
        assert MARKED.encode() in done.stdout
