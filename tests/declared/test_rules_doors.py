"""`--rules` in every door, and the files that are found without being named."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import pytest
from documents import ask_door
from doors import GDB, Core, Door, Live
from lldb_door import NEWEST_LLDB
from looks import opened
from shell_door import SHELL
from sites import PROGRAMS, Sited

pytestmark = pytest.mark.xdist_group("declared rules")
PROGRAM = "idioms.O0"
COUNT = 20
RULES = """\
task.payload = resize when .kind == RESIZE
task.payload = upload when .kind == UPLOAD
task.payload = char[] when .kind == RAW
"""
NAMED = {"resize": COUNT, "upload": COUNT}
DOORS = pytest.mark.parametrize("door", [GDB, NEWEST_LLDB, SHELL], ids=lambda door: door.name)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    folder = tmp_path_factory.mktemp("idioms")
    sited = Sited(PROGRAMS / PROGRAM, folder, str(COUNT))
    try:
        opened(GDB).do(Live(sited.pid, sited.program), [f"generate-core-file {folder / 'core'}"])
        yield Core(folder / "core", sited.program)
    finally:
        sited.end()


def payloads(door: Door, core: Core, words: str = "") -> tuple[dict[str, int], set[str]]:
    """How many blocks are certainly what tasks have, by type, and what is told of rules."""
    (document,) = ask_door(door, core, f"types --limit 0 {words}")
    told = {each["id"] for each in document["problem_records"] if each["id"].startswith("rule-")}
    rows = {row["type"]: row["blocks"] for row in document["types"] if row["certain"]}
    return {name: rows[name] for name in NAMED if name in rows}, told


@DOORS
def test_a_named_file(core: Core, door: Door, tmp_path: Path) -> None:
    rules = tmp_path / "some.rules"
    rules.write_text(RULES + "job.title = upload\n")
    assert payloads(door, core) == ({}, set())
    assert payloads(door, core, f"--rules {rules}") == (NAMED, {"rule-contradicted"})


@DOORS
def test_a_line_about_nothing(core: Core, door: Door, tmp_path: Path) -> None:
    rules = tmp_path / "some.rules"
    rules.write_text("task.nothing = upload\n")
    asked = "--declared" if door is SHELL else ""
    (found,) = opened(door).run(core, [f"types {asked} --rules {rules}"])
    assert f"{rules}:1: " in (found.error or "")


def test_files_that_are_found(core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the user's configuration, and only where nobody else can write to it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "arenascope" / "rules"
    folder.mkdir(parents=True)
    rules = folder / f"{PROGRAM}.rules"
    rules.write_text(RULES)
    assert payloads(SHELL, core) == (NAMED, set())
    assert payloads(SHELL, core, "--rules none") == ({}, set())
    rules.write_text("nothing.at = all\n")
    assert payloads(SHELL, core) == ({}, {"rule-unread"})
    rules.write_text(RULES)
    for path, mode in ((rules, 0o666), (folder, 0o777)):
        before = path.stat().st_mode
        path.chmod(mode)
        assert payloads(SHELL, core) == ({}, set())
        path.chmod(before)
    assert payloads(SHELL, core) == (NAMED, set())


def test_none_is_found_beside_a_core(core: Core) -> None:
    """It may have come with the core, out of somebody else's archive."""
    beside = core.path.with_name(f"{PROGRAM}.rules")
    beside.write_text(RULES)
    try:
        assert payloads(SHELL, core) == ({}, set())
    finally:
        beside.unlink()


@DOORS
def test_the_file_is_named(core: Core, door: Door, tmp_path: Path) -> None:
    """In documents and on screens of whatever blocks are named for."""
    rules = tmp_path / "some.rules"
    rules.write_text(RULES)
    asked = "--declared" if door is SHELL else ""
    looks = [f"{name} --limit 2 {asked} --rules {rules}" for name in ("types", "containers", "owners")]
    found = opened(door).run(
        core, [*looks, *(f"{each} --json" for each in looks), f"types --json {asked} --rules none"]
    )
    texts, documents = found[: len(looks)], found[len(looks) :]
    assert [str(rules) in each.text for each in texts] == [True] * len(looks)
    assert [each.json()["rules"] for each in documents] == [*[[str(rules)]] * len(looks), []]
