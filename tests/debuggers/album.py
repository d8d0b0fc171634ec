"""Every scenario is built once, looked at from all sides in one go, and ended; tests then read what was seen.

The order is what one process allows: what /proc and GDB itself say first, then each door on the live process, then
the two cores, of which the kernel's is the process's end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional

from doors import DOORS, GDB, Core, Image, Live, Outcome, give_up
from kept import Kept, Said, Seen, attempt, by_command, unless_failed
from platforms import Platform
from scenarios import Scenario, View
from subjects import Subject

DOCUMENTS = ("arenas", "heaps", "bins", "threads", "params", "mmapped", "check", "chunks --limit 0", "trim --ranges",
             "pins --ranges", "info", "stats", "version")
FIGURES = (*(f"{name} --json" for name in DOCUMENTS), "arenas --quick --json", "info", "stats")
COMMANDS = (*FIGURES, "arenas", "heaps", "bins", "threads", "params", "mmapped", "check", "trim", "pins",
            "version", "arenas --quick")
"""Where there are no symbols the figures may differ, their layout does not."""
THREAD_WORDS = {"arena": "(unsigned long)thread_arena", "tcache": "(unsigned long)tcache", "counts": "tcache->counts"}
PARAMETERS = ("trim_threshold", "top_pad", "mmap_threshold", "arena_test", "arena_max", "n_mmaps", "n_mmaps_max",
              "max_n_mmaps", "no_dyn_threshold", "mmapped_mem", "max_mmapped_mem", "tcache_bins", "tcache_max_bytes",
              "tcache_count", "tcache_unsorted_limit")
RENAMED = {"tcache_bins": "tcache_small_bins"}
"""Fields that have another name from some release on."""


@dataclass
class Witness:
    """What is known of a subject without arenascope."""

    pid: int
    truth: dict[str, Any]
    info_xml: str
    stats_text: str
    live_blocks: dict[int, int]
    smaps: dict[tuple[int, int], int]
    thread_names: dict[int, str]
    glibc_threads: dict[int, dict[str, Any]]
    """tid: thread_arena, tcache and tcache->counts, by GDB from debug information."""
    glibc_params: dict[str, Optional[int]]
    """mp_'s fields, likewise."""


def testify(subject: Subject) -> Witness:
    smaps, names = subject.smaps(), subject.thread_names()
    threads: dict[int, dict[str, Any]] = {}
    params: dict[str, Optional[int]] = {}
    if not GDB.available():
        steps = [{"each_thread": THREAD_WORDS},
                 *({"value": f"mp_.{name}"} for name in (*PARAMETERS, *RENAMED.values()))]
        words, *values = GDB.drive(GDB.look_at(Live(subject.pid, subject.program)), steps, load=())
        threads = {int(tid): each for tid, each in words.value.items()}
        found = {name: each.value for name, each in zip((*PARAMETERS, *RENAMED.values()), values)}
        params = {name: found[name] if found[name] is not None else found.get(RENAMED.get(name, ""))
                  for name in PARAMETERS}
    return Witness(subject.pid, subject.truth, subject.info_xml, subject.stats_text, subject.live_blocks, smaps, names,
                   threads, params)


class Photographs:
    """All views of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.seen: dict[tuple[str, str, bool], Seen] = {}
        self.scenario = scenario
        with Subject(scenario.fixture, *scenario.arguments, env=scenario.env, platform=scenario.platform) as subject:
            self.witness = testify(subject)
            self._look("live", lambda: Live(subject.pid, subject.program))
            if "gcore" in scenario.images:
                self._look("gcore", lambda: Core(subject.gcore(), subject.program))
            if "kernel" in scenario.images:
                self._look("kernel", lambda: Core(subject.kernel_core(), subject.program))

    def _look(self, name: str, make: Callable[[], Image]) -> None:
        image = attempt(make)
        if isinstance(image, BaseException):
            self.seen.update({(door, name, symbols): image for door in DOORS for symbols in (True, False)})
            return
        for door in DOORS.values():
            for symbols in (True, False):
                self.seen[door.name, name, symbols] = _run(door, image, symbols)
        if isinstance(image, Core):
            image.path.unlink()  # hundreds of megabytes


def _run(door: Any, image: Image, symbols: bool) -> Seen:
    commands = COMMANDS if symbols else FIGURES

    def look() -> list[Outcome]:
        reason = door.available()
        if reason:
            give_up(reason)
        return door.run(image, commands, symbols)

    return by_command(commands, look)


class Sight(Witness, Said):
    """One view, beside what is known without arenascope."""

    def __init__(self, view: View, photographs: Photographs) -> None:
        self.__dict__.update(photographs.witness.__dict__)
        self.view = view
        self.outcomes = unless_failed(photographs.seen[view.door, view.image, view.symbols])

    @property
    def live(self) -> bool:
        return self.view.image == "live"

    @property
    def kind(self) -> str:
        return "live" if self.live else "core"

    @property
    def platform(self) -> Platform:
        return self.view.scenario.platform

    @property
    def mallinfo(self) -> dict[str, int]:
        """By mallinfo2, or before glibc 2.33 by mallinfo."""
        return self.truth["mallinfo2"] if "mallinfo2" in self.truth else self.truth["mallinfo"]


class Album:
    """The scenarios that were built so far."""

    def __init__(self) -> None:
        self._photographs = Kept()

    def sight(self, view: View) -> Sight:
        return Sight(view, self._photographs.get(view.scenario.id, lambda: Photographs(view.scenario)))
