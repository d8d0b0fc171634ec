"""Every subject lives twice: once to be looked at from all sides, as a guest and as its core, and once to be trimmed.

Tests then read what was seen; as in tests/debuggers/album.py, which does this for the host's own processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emulated import Emulated, Trimmed
from looks import Core
from machine_doors import over_stub, through
from machine_table import CORE, GDB_NAME, STUB, Machine, Scenario, View, views
from made_once import Kept, Said, Seen, by_command, unless_failed

TRIM = "trim --ranges --json"
MMAPPED = "mmapped --json"
COMMANDS = ("info", "stats", "arenas --json", "heaps --json", "threads --json", MMAPPED, "version --json", TRIM)


@dataclass(frozen=True)
class Witness:
    """What is known of a subject without arenascope."""

    pid: int
    truth: dict[str, Any]
    info_xml: str
    stats_text: str
    live_blocks: dict[int, int]


class Photographs:
    """All views of one subject."""

    def __init__(self, machine: Machine, scenario: Scenario) -> None:
        self.seen: dict[tuple[str, str, bool], Seen] = {}
        # a search of all memory for them takes seconds over the stub
        asked = [name for name in COMMANDS if name != MMAPPED or scenario.name == "mmapped"]
        with Emulated(machine, scenario) as subject:
            for symbols, found in zip((True, False), over_stub(machine, subject.program, subject.socket, asked)):
                self.seen[GDB_NAME, STUB, symbols] = dict(zip(asked, found))
            subject.wait_until_ready()
            self.witness = Witness(
                subject.pid, subject.truth, subject.info_xml, subject.stats_text, subject.live_blocks
            )
            if machine.dumps:
                core = Core(subject.guest_core(), subject.program)
                for view in views():
                    if (view.on, view.scenario, view.image) == (machine, scenario, CORE):
                        self.seen[view.door, CORE, view.symbols] = by_command(
                            COMMANDS, lambda view=view: through(view.door, machine, core, COMMANDS, view.symbols)
                        )


@dataclass(frozen=True)
class Foretold:
    """What was said of a guest by name of who said it, and what malloc_trim then did in it."""

    by_symbols: dict[str, Any]
    by_scan: dict[str, Any]
    trimmed: Trimmed
    alive: str


def foretell(machine: Machine, scenario: Scenario) -> Foretold:
    with Emulated(machine, scenario) as subject:
        (by_symbols,), (by_scan,) = over_stub(machine, subject.program, subject.socket, [TRIM])
        subject.wait_until_ready()
        trimmed = subject.trim()
        return Foretold(by_symbols.json(), by_scan.json(), trimmed, subject.send("check"))


class Sight(Said):
    """One view, beside what is known without arenascope."""

    def __init__(self, view: View, photographs: Photographs) -> None:
        self.view = view
        self.witness = photographs.witness
        self.outcomes = unless_failed(photographs.seen[view.door, view.image, view.symbols])
        self.stub = unless_failed(photographs.seen[GDB_NAME, STUB, True])


class Album:
    """The subjects that were looked at so far."""

    def __init__(self) -> None:
        self._photographs = Kept()

    def sight(self, view: View) -> Sight:
        key = view.on, view.scenario
        return Sight(view, self._photographs.get(key, lambda: Photographs(*key)))
