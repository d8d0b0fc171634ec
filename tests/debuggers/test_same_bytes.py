"""Whichever debugger opens a core: the same JSON but for "door", and the same text."""

from __future__ import annotations

from typing import Iterator

import pytest
from album import COMMANDS, FIGURES
from doors import GDB, Core, Door, Outcome
from lldb_door import NEWEST_LLDB, Lldb
from looks import opened
from marks import full_after, in_full
from shell_door import SHELL
from subjects import Subject

# `version` tells of the debugger
OWN = ("version", "version --json")
FIXTURES = ("bins", "bins.static", "dlmopen")

Answers = dict[tuple[str, bool], list[Outcome]]


@pytest.fixture(scope="module", params=full_after(1, FIXTURES))
def seen(request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, Core], Answers]]:
    """Two cores, and what GDB says of it."""
    opened(GDB)
    with Subject(request.param) as subject:
        gcore, kernel_core = subject.gcore(), subject.kernel_core()
        cores = {"gcore": Core(gcore, subject.program), "kernel": Core(kernel_core, subject.program)}
        yield (
            cores,
            {
                (name, symbols): GDB.run(core, COMMANDS if symbols else FIGURES, symbols)
                for name, core in cores.items()
                for symbols in (True, False)
            },
        )


def told(outcome: Outcome, core: Core, symbols: bool) -> object:
    """What was said, less what may differ."""
    assert outcome.error is None, outcome
    if outcome.command.endswith("--json"):
        document = outcome.json()
        assert document.pop("door") in ("gdb", "lldb", "shell")
        for advice in document.get("advice", ()):
            assert advice.pop("how")
        if not symbols:
            # one may know the name of a variable that another does not, of a program beside the first
            document.pop("groups", None)
        return list(document.items())  # in its order
    # what to type next is named as it is typed there
    text = outcome.text.replace("arenascope ", "heap ")
    for subject in (str(core.path), "PID", "LATER"):
        text = text.replace(f" {subject}", "")
    # with a core's name in each of them these lines are folded
    return text.replace(",\n      ", ", ")


NAMING = ("chunk", "leaks", "map", "mmapped", "owner", "pins", "refs", "report", "snapshot", "types")
"""What says what blocks are."""


@pytest.mark.xdist_group("same_bytes")
@pytest.mark.parametrize(
    ("symbols", "image"),
    [
        pytest.param(True, "kernel", id="symbols-kernel"),
        pytest.param(False, "gcore", id="stripped-gcore"),
    ],
)
@pytest.mark.parametrize("other", [NEWEST_LLDB, SHELL, *in_full(Lldb(14))], ids=lambda door: door.name)
def test_the_doors_print_the_same(
    seen: tuple[dict[str, Core], Answers], other: Door, symbols: bool, image: str
) -> None:
    opened(other)
    cores, answers = seen
    commands = COMMANDS if symbols else FIGURES
    # GDB's gcore leaves out the headers that tell a file's build-id: the shell believes none of its types
    unnamed = NAMING if (other, symbols, image) == (SHELL, True, "gcore") else ()
    for command, theirs, ours in zip(commands, answers[image, symbols], other.run(cores[image], commands, symbols)):
        if command not in OWN and not command.startswith(unnamed):
            assert told(ours, cores[image], symbols) == told(theirs, cores[image], symbols), command
