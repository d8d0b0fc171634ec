"""`import arenascope`: what a program gets is what the commands print, through every door, live and of a core."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Iterator, Union

import pytest
from doors import GDB, Core, Gdb, Image, Live
from lldb_door import LLDBS, Lldb
from looks import opened
from marks import in_full
from schemas import valid
from shell_door import SHELL
from subjects import Subject
from waiting import state

import arenascope

pytestmark = pytest.mark.xdist_group("api")
ASKED: dict[str, tuple[str, dict[str, Union[str, int, bool]]]] = {
    "arenas --json": ("arenas", {}),
    "arenas --quick --json": ("arenas", {"quick": True}),
    "trim --ranges --json": ("trim", {"ranges": True}),
    "types --by blocks --limit 5 --json": ("types", {"by": "blocks", "limit": 5}),
    "types --owners --json": ("types", {"owners": True}),
    "owners --json": ("owners", {}),
    "bins --json": ("bins", {}),
    "report --json": ("report", {}),
    "chunks --limit 3 --json": ("chunks", {"limit": 3}),
}
PROGRAM = """
import arenascope, json
found = [getattr(arenascope.{call}(), name)(**options).to_dict() for name, options in {asked!r}]
with open({file!r}, "w") as file: json.dump(found, file)
"""
RUN = {"gdb": "python", "lldb": "script"}
DIFFERS = ("held_seconds",)


def same(document: dict[str, Any], printed: dict[str, Any]) -> bool:
    return {key: value for key, value in document.items() if key not in DIFFERS} == {
        key: value for key, value in printed.items() if key not in DIFFERS
    }


@pytest.fixture(scope="module")
def kinds() -> Iterator[Subject]:
    with Subject("kinds") as subject:
        yield subject


@pytest.fixture(scope="module", params=["live", *in_full("core")])
def image(request: pytest.FixtureRequest, kinds: Subject) -> Image:
    return Live(kinds.pid, kinds.program) if request.param == "live" else Core(kinds.gcore(), kinds.program)


def test_in_plain_python(image: Image) -> None:
    it = arenascope.open(image.pid if isinstance(image, Live) else str(image.path))
    for printed, (name, options) in zip(SHELL.run(image, list(ASKED)), ASKED.values()):
        found = getattr(it, name)(**options).to_dict()
        assert same(valid(found), printed.json()), printed.command


@pytest.mark.parametrize("door", [GDB, *in_full(LLDBS[-1])], ids=lambda door: door.name)
@pytest.mark.parametrize("call", ["selected", *in_full("open")])
def test_in_a_debugger(door: Union[Gdb, Lldb], call: str, image: Image, tmp_path: Path) -> None:
    program, file = tmp_path / "program.py", tmp_path / "found"
    program.write_text(PROGRAM.format(call=call, asked=list(ASKED.values()), file=str(file)))
    run = f"{RUN[door.name.partition('-')[0]]} exec(open({str(program)!r}).read(), {{}})"
    asked = [*(f"heap {each}" for each in ASKED), run]
    *printed, done = opened(door).drive(door.look_at(image), [{"do": each} for each in asked])[-len(asked) :]
    assert done.error is None, done
    for found, outcome in zip(json.loads(file.read_text()), printed):
        assert same(valid(found), outcome.json()), outcome.command


def test_a_process_is_held_over_several_looks(kinds: Subject) -> None:
    it = arenascope.open(kinds.pid)
    alone = it.arenas()
    assert alone.envelope.held_seconds is not None
    assert state(kinds.pid) != "t"
    with it.hold():
        found = it.arenas()
        assert state(kinds.pid) == "t"
        assert it.types().totals.used_bytes == found.totals.used_bytes
        assert it.owners().owners
        assert state(kinds.pid) == "t"
    assert state(kinds.pid) != "t"
    assert found.totals == alone.totals

    def break_off() -> None:
        with it.hold():
            it.arenas()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert state(kinds.pid) != "t"


def test_trim_is_applied() -> None:
    with Subject("workers", "4", "2") as subject, arenascope.open(subject.pid) as it:
        would = it.trim().totals.resident_bytes
        done = it.trim(apply=True, yes=True, tops=True)
        assert done.applied is not None
        assert done.applied.released_bytes >= (would or 0)
        assert len(done.applied.calls) == 2
        assert state(subject.pid) != "t"


def test_what_is_refused_is_an_error_of_one_line(kinds: Subject, tmp_path: Path) -> None:
    it = arenascope.open(kinds.pid)
    with pytest.raises(arenascope.UsageError):
        it.arenas(nonsense=True)
    with pytest.raises(arenascope.UsageError):
        it.ask("nonsense")
    for options in ({"hold_at_most": 0.0}, {"sysroot": str(tmp_path / "none")}, {"stop": "none"}):
        with pytest.raises(arenascope.UsageError):
            arenascope.open(kinds.pid, **options)
    with pytest.raises(arenascope.UsageError):
        it.trim(apply=True)  # nobody says yes
    with pytest.raises(arenascope.TargetError):
        arenascope.open(tmp_path / "none").arenas()
    with pytest.raises(arenascope.TargetError) as refused:
        arenascope.selected()
    assert "\n" not in str(refused.value)
    with pytest.raises(arenascope.TargetError):
        arenascope.open(os.getpid()).arenas()
    with pytest.raises(arenascope.RefusedError) as refused:
        arenascope.open(kinds.gcore()).trim(apply=True, yes=True)
    assert refused.value.id == "is-a-core"


def test_a_hold_that_took_too_long_is_told(kinds: Subject) -> None:
    def look_too_long() -> None:
        with arenascope.open(kinds.pid, hold_at_most=0.5) as it, it.hold():
            assert it.arenas().totals.used_bytes
            time.sleep(0.8)

    with pytest.raises(arenascope.TargetError):
        look_too_long()
    assert state(kinds.pid) != "t"
    assert os.path.exists(f"/proc/{kinds.pid}")
