"""Several glibcs in one process: dlmopen, libc_malloc_debug, dlopen from a static program. Each copy's own malloc_info
says what it holds, and `--libc N` must say the same, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Mapping, Optional

import pytest
from doors import DOORS, NEWEST, Core, Door, Live, Outcome
from looks import completed
from shell_door import arenascope
from subjects import Subject

from arenascope.present.shared_text.lines_and_tables import NO_HEAP

COMMANDS = [
    "info",
    "info --libc 1",
    "arenas --json",
    "arenas --json --libc 1",
    "threads --json --libc 1",
    "version --json",
    "version",
    "params --json --libc=1",
]


class Copies:
    """One subject from all sides."""

    def __init__(self, program: str, *arguments: str, env: Optional[Mapping[str, str]] = None) -> None:
        self.seen: dict[tuple[str, str, bool], dict[str, Outcome]] = {}
        with Subject(program, *arguments, env=env) as subject:
            truth = subject.folder / "truth"
            self.files = {path.name: path.read_text() for path in truth.iterdir() if path.is_file()}
            self.notes = arenascope("arenas", subject.pid).stderr
            for make in (lambda: Live(subject.pid, subject.program), lambda: Core(subject.gcore(), subject.program)):
                image = make()
                for number, name in enumerate(NEWEST):
                    door: Door = DOORS[name]
                    # each door with symbols at one image, and without at the other
                    symbols = (number % 2 == 0) == (image.kind == "live")
                    if not door.available():
                        outcomes = door.run(image, COMMANDS, symbols)
                        self.seen[name, image.kind, symbols] = dict(zip(COMMANDS, outcomes))
        assert self.seen

    def text(self, command: str) -> dict[tuple[str, str, bool], str]:
        found = {where: outcomes[command] for where, outcomes in self.seen.items()}
        assert not [(where, each.error) for where, each in found.items() if each.error]
        return {where: each.text for where, each in found.items()}

    def json(self, command: str) -> dict[tuple[str, str, bool], dict[str, Any]]:
        return {where: outcomes[command].json() for where, outcomes in self.seen.items()}


def figures(xml: str) -> dict[str, int]:
    """malloc_info's last words: the sums over all arenas."""
    totals = {
        kind: re.findall(rf'<total type="{kind}" count="(\d+)" size="(\d+)"/>', xml)[-1]
        for kind in ("fast", "rest", "mmap")
    }
    return {
        "system": int(re.findall(r'<system type="current" size="(\d+)"', xml)[-1]),
        "fast": int(totals["fast"][1]),
        "rest": int(totals["rest"][0]),
        "mmap": int(totals["mmap"][1]),
    }


def check_against(document: Mapping[str, Any], xml: str) -> None:
    truth, totals = figures(xml), document["totals"]
    assert totals["fast"]["bytes"] == truth["fast"]
    assert totals["bins"]["chunks"] + len(document["arenas"]) == truth["rest"]
    assert document["mmapped"]["bytes"] == truth["mmap"]
    assert totals["system_bytes"] == truth["system"]
    assert document["complete"] is True, document["problems"]


def check_both(copies: Copies, first: str, second: str) -> None:
    for command, xml in (("info", first), ("info --libc 1", second)):
        for where, text in copies.text(command).items():
            assert text == copies.files[xml], (command, where)
    for command, xml in (("arenas --json", first), ("arenas --json --libc 1", second)):
        for document in copies.json(command).values():
            check_against(document, copies.files[xml])
    for where, document in copies.json("version --json").items():
        assert [(each["libc"], each["used"], each["chosen"]) for each in document["libcs"]] == [
            (0, True, True),
            (1, True, False),
        ], where
        assert document["libcs"][0]["main_arena"] == document["glibc"]["main_arena"]
        other = copies.json("arenas --json --libc 1")[where]["glibc"]["main_arena"]
        assert document["libcs"][1]["main_arena"] == other != document["glibc"]["main_arena"], where
        assert f"libc 1: {document['libcs'][1]['path']}, main_arena {other}" in copies.text("version")[where], where


@pytest.mark.full
@pytest.mark.xdist_group("several_libcs")
def test_dlmopen() -> None:
    copies = Copies("dlmopen")
    check_both(copies, "info.xml", "info2.xml")
    for where, document in copies.json("arenas --json --libc 1").items():
        # of the blocks that each thread freed there, one is small enough for its cache: 1,000 bytes
        assert document["totals"]["tcache"] == {"chunks": 2, "bytes": 2 * 1008}, where
        assert [len(arena["threads"]) for arena in document["arenas"]] == [1, 1], where
    for where, document in copies.json("threads --json --libc 1").items():
        assert [(each["arena"], each["tcache"]["chunks"]) for each in document["threads"]] == [(0, 1), (1, 1)], where
    assert "--libc 1" in copies.notes


@pytest.mark.full
@pytest.mark.xdist_group("several_libcs")
@pytest.mark.parametrize("how", ["tunable", "variable"])
def test_libc_malloc_debug(how: str) -> None:
    """It serves malloc by a copy of the allocator; what is asked of __libc_malloc is libc.so's still."""
    asked = {"GLIBC_TUNABLES": "glibc.malloc.check=3"} if how == "tunable" else {"MALLOC_CHECK_": "3"}
    copies = Copies("beside", "5", env={"LD_PRELOAD": "libc_malloc_debug.so.0", **asked})
    check_both(copies, "info.xml", "libc-info.xml")
    for document in copies.json("version --json").values():
        assert ["libc_malloc_debug" in each["path"] for each in document["libcs"]] == [True, False]
        assert document["libcs"][0]["version"] == document["libcs"][1]["version"] is not None
    for where, document in copies.json("arenas --json").items():
        # five million bytes by malloc, and three by __libc_malloc
        assert document["totals"]["used_bytes"] >= 5 << 20, where
        assert document["totals"]["tcache"] == {"chunks": 0, "bytes": 0}, where
    assert "libc_malloc_debug.so " in copies.notes


@pytest.mark.full
@pytest.mark.xdist_group("several_libcs")
def test_libc_malloc_debug_without_checks() -> None:
    """Preloaded and asked for nothing, it hands all on: its own main_arena is there, and was never used."""
    with Subject("beside", "5", env={"LD_PRELOAD": "libc_malloc_debug.so.0"}) as subject:
        image = Live(subject.pid, subject.program)
        for name in NEWEST:
            whole, version, other = DOORS[name].run(image, ["info", "version --json", "arenas --libc 1"])
            assert whole.text == subject.info_xml
            assert [each["used"] for each in version.json()["libcs"]] == [True, False]
            assert "malloc_debug" in version.json()["libcs"][1]["path"]
            assert NO_HEAP in other.text, name


STATIC = Path(__file__).with_name("several_libcs_static.c").read_text()


@pytest.mark.full
@pytest.mark.xdist_group("several_libcs")
def test_dlopen_from_a_static_program(tmp_path: Path) -> None:
    (tmp_path / "opens.c").write_text(STATIC)
    flags = ["-static", "-O1", "-g", "-D_GNU_SOURCE", "-fno-builtin", "-w"]
    completed("gcc", *flags, "-o", tmp_path / "opens", tmp_path / "opens.c", "-ldl")
    copies = Copies(str(tmp_path / "opens"))
    check_both(copies, "info.xml", "info2.xml")
    for document in copies.json("version --json").values():
        assert [each["path"].rsplit("/", 1)[-1] for each in document["libcs"]] == ["opens", "libc.so.6"]
