"""What a dump leaves out: each coredump_filter, gcore with its settings. All is exact, or one line says why not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest
from doors import DOORS, GDB, NEWEST, Core, Door, Live, Outcome
from looks import give_up, opened
from marks import full_after, in_full
from partial import LOOKS, figures, judged, wrong
from subjects import Subject

COMMANDS = [f"{name} --json" for name in LOOKS] + ["info", "stats"]
WHOLE = (0x33, 0x31, 0x11, 0x7F)
"""Private anonymous memory, and the first page of every file: with it comes the build-id."""
NAMELESS = (0x3, 0x1)
"""No pages of files: which libc it is, memory cannot say."""
EMPTY = (0x10, 0x2, 0x0)


@pytest.fixture(params=full_after(1, NEWEST[::-1]))
def door(request: pytest.FixtureRequest) -> Door:
    return opened(DOORS[request.param])


class Truth:
    """A process as it is seen alive, and what glibc itself said."""

    def __init__(self, subject: Subject) -> None:
        self.xml, self.stats = subject.info_xml, subject.stats_text
        outcomes = DOORS["shell"].run(Live(subject.pid, subject.program), COMMANDS)
        self.whole = {named(each): each.json() for each in outcomes if each.command.endswith("--json")}
        assert self.whole["info --json"]["xml"] == self.xml

    def check(self, outcome: Outcome, may_lack: tuple[str, ...] = ()) -> dict[str, Any]:
        """Every figure is the living process's or null; null only in documents that are not complete, or `may_lack`."""
        name = named(outcome)
        document = judged(outcome, self.whole[name])
        if document["complete"] and name.partition(" --json")[0] not in may_lack:
            assert as_in_a_core(figures(document)) == as_in_a_core(figures(self.whole[name])), name
        return document


def named(outcome: Outcome) -> str:
    return outcome.command.replace("heap ", "", 1)


def as_in_a_core(value: Any) -> Any:
    """Cores do not tell the names of threads, nor how many processors there were (the arena limit)."""
    if isinstance(value, dict):
        return {
            key: None if key == "limit" or (key == "name" and "tid" in value) else as_in_a_core(each)
            for key, each in value.items()
        }
    return [as_in_a_core(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def cores() -> Iterator[dict[int, tuple[Truth, Core]]]:
    """One process and one core for each filter, made when it is first asked for."""
    subjects: list[Subject] = []

    class Cores(dict[int, tuple[Truth, Core]]):
        def __missing__(self, bits: int) -> tuple[Truth, Core]:
            subject = Subject("bins", coredump_filter=bits).__enter__()
            subjects.append(subject)
            truth = Truth(subject)
            self[bits] = truth, Core(subject.kernel_core(), subject.program)
            return self[bits]

    yield Cores()
    for subject in subjects:
        subject.end()


@pytest.mark.xdist_group("core filters")
@pytest.mark.parametrize("bits", full_after(1, WHOLE), ids=hex)
def test_all_that_is_asked_for(door: Door, cores: dict[int, tuple[Truth, Core]], bits: int) -> None:
    truth, core = cores[bits]
    *outcomes, info, stats = door.run(core, COMMANDS)
    for outcome in outcomes:
        assert truth.check(outcome)["problems"] == [], outcome.command
    assert (info.text, stats.text) == (truth.xml, truth.stats)


@pytest.mark.xdist_group("core filters")
@pytest.mark.parametrize("symbols", [True, *in_full(False)], ids=["symbols", "stripped"])
@pytest.mark.parametrize("bits", full_after(1, NAMELESS), ids=hex)
def test_without_pages_of_files(door: Door, cores: dict[int, tuple[Truth, Core]], bits: int, symbols: bool) -> None:
    """Every figure by what memory looks like; the release is null where no build-id proves it."""
    truth, core = cores[bits]
    *outcomes, info, stats = door.run(core, COMMANDS, symbols)
    for outcome in outcomes:
        document = truth.check(outcome, may_lack=("params",))
        assert document["glibc"]["version"] in (None, truth.whole[named(outcome)]["glibc"]["version"])
        if document["glibc"]["version"] is None and named(outcome) in ("info --json", "params --json"):
            assert "release-unknown" in [each["id"] for each in document["problem_records"]]
    assert (info.text, stats.text) == (truth.xml, truth.stats)


@pytest.mark.xdist_group("core filters")
@pytest.mark.parametrize("bits", full_after(1, EMPTY), ids=hex)
def test_without_private_memory(door: Door, cores: dict[int, tuple[Truth, Core]], bits: int) -> None:
    _, core = cores[bits]
    for outcome in door.run(core, COMMANDS):
        assert outcome.error, outcome.command
        assert len(outcome.error.strip().splitlines()) == 1
        assert "core" in outcome.error
        assert "coredump_filter" in outcome.error


SETTINGS = {
    "as it comes": [],
    "by the filter": ["set use-coredump-filter on"],
    "not by the filter": ["set use-coredump-filter off"],
    "all mappings": ["set use-coredump-filter off", "set dump-excluded-mappings on"],
}


@pytest.mark.xdist_group("gcore settings")
@pytest.mark.parametrize("how", full_after(1, SETTINGS))
def test_gcore(door: Door, how: str, tmp_path: Path) -> None:
    if GDB.available():
        give_up("gdb is not there to write a core")
    with Subject("bins", coredump_filter=0x33) as subject:
        truth = Truth(subject)
        path = dump(subject, SETTINGS[how], tmp_path)
        *outcomes, info, stats = door.run(Core(path, subject.program), COMMANDS)
    for outcome in outcomes:
        # its file has no holes, so that residency is null
        assert truth.check(outcome, may_lack=tuple(LOOKS))["problems"] == []
    assert (info.text, stats.text) == (truth.xml, truth.stats)


@pytest.mark.full
def test_gcore_by_a_filter_without_private_memory(door: Door, tmp_path: Path) -> None:
    if GDB.available():
        give_up("gdb is not there to write a core")
    with Subject("bins", coredump_filter=0x10) as subject:
        truth = Truth(subject)
        path = dump(subject, SETTINGS["by the filter"], tmp_path)
        for outcome in door.run(Core(path, subject.program), COMMANDS):
            if outcome.error is None and outcome.command.endswith("--json"):
                truth.check(outcome)
            else:
                assert outcome.error
                assert len(outcome.error.strip().splitlines()) == 1


def dump(subject: Subject, settings: list[str], folder: Path) -> Path:
    """gcore by GDB itself, with settings; sparse, as it is large."""
    path = folder / "gcore"
    words = [word for each in settings for word in ("-ex", each)]
    GDB.start(["-p", str(subject.pid), *words, "-ex", f"generate-core-file {path}"])
    assert path.exists()
    subprocess.run(["cp", "--sparse=always", str(path), f"{path}.sparse"], check=True)
    path.unlink()
    return Path(f"{path}.sparse")


def test_the_documents_are_json() -> None:
    """`wrong` finds a figure that is not right, and takes null: else nothing above would prove anything."""
    whole = json.loads('{"arenas": [{"address": "0x1", "bytes": 5}], "totals": {"bytes": 5}}')
    assert list(wrong({"arenas": [{"address": "0x1", "bytes": None}], "totals": {"bytes": None}}, whole)) == []
    assert list(wrong({"arenas": [], "totals": {"bytes": 4}}, whole)) == [".totals.bytes: 4, not 5"]
    assert list(wrong({"arenas": [{"address": "0x2", "bytes": 5}]}, whole)) != []
