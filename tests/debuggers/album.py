"""Every scenario is built once, looked at from all sides in one go, and ended; tests then read what was seen.

The order is what one process allows: what /proc and GDB itself say first, then each door on the live process, then
the two cores, of which the kernel's is the process's end. A door that looks at both opens one after the other, as to
start a debugger takes as long as what it is asked then; which comes first goes in turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from doors import DOORS, GDB, Core, Image, Live
from looks import Asked, opened
from made_once import Kept, Said, Seen, attempt, unless_failed
from platforms import Platform
from scenarios import GUARDED, SHORT, TABLE, Scenario, View
from shell_door import SHELL
from subjects import Present, Subject

DOCUMENTS = (
    "arenas",
    "heaps",
    "bins",
    "threads",
    "params",
    "mmapped",
    "check",
    "chunks --limit 0",
    "trim --ranges",
    "info",
    "stats",
    "version",
)
PINS = "pins --ranges"
WITH_PINS = ("hoard", "pinned-main", "pinned-thread", "many_heaps-spread", "full_heap-retired", "random-1")
"""Scenarios that are asked for PINS, too: it reads all types, and takes as long as all other documents
together. test_pins asks the shell of some others."""
FIGURES = (*(f"{name} --json" for name in (*DOCUMENTS, PINS)), "arenas --quick --json", "info", "stats")
SAID = ("params", "check", "trim")
COMMANDS = (*FIGURES, *SAID, "arenas", "heaps", "bins", "threads", "mmapped", "pins", "version", "arenas --quick")
"""All texts for the first scenario alone, and of others what tests read (has_texts): their figures may differ, their
layout does not, and test_every_command reads each in every door."""
THREAD_WORDS = {
    "arena": "(unsigned long)thread_arena",
    "tcache": "(unsigned long)tcache",
    "dummy": "(unsigned long)&__tcache_dummy",
    "dummy_end": "(unsigned long)(&__tcache_dummy + 1)",
    "counts": "tcache->counts",
    "slots": "tcache->num_slots",
}
"""Since 2.42 it has how many more go in instead of counts, and since 2.43 a thread without a cache has a dummy."""
PARAMETERS = (
    "trim_threshold",
    "top_pad",
    "mmap_threshold",
    "arena_test",
    "arena_max",
    "n_mmaps",
    "n_mmaps_max",
    "max_n_mmaps",
    "no_dyn_threshold",
    "mmapped_mem",
    "max_mmapped_mem",
    "tcache_bins",
    "tcache_max_bytes",
    "tcache_count",
    "tcache_unsorted_limit",
)
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
    present: Present
    thread_names: dict[int, str]
    glibc_threads: dict[int, dict[str, Any]]
    """tid: what THREAD_WORDS names, by GDB from debug information."""
    glibc_params: dict[str, Optional[int]]
    """mp_'s fields, likewise."""


def testify(subject: Subject) -> Witness:
    present, names = subject.present(), subject.thread_names()
    threads: dict[int, dict[str, Any]] = {}
    params: dict[str, Optional[int]] = {}
    if not GDB.available():
        steps = [
            {"each_thread": THREAD_WORDS},
            *({"value": f"mp_.{name}"} for name in (*PARAMETERS, *RENAMED.values())),
        ]
        words, *values = GDB.drive(GDB.look_at(Live(subject.pid, subject.program)), steps, load=())
        threads = {int(tid): each for tid, each in words.value.items()}
        found = {name: each.value for name, each in zip((*PARAMETERS, *RENAMED.values()), values)}
        params = {
            name: found[name] if found[name] is not None else found.get(RENAMED.get(name, "")) for name in PARAMETERS
        }
    return Witness(
        subject.pid,
        subject.truth,
        subject.info_xml,
        subject.stats_text,
        subject.live_blocks,
        present,
        names,
        threads,
        params,
    )


class Photographs:
    """The views of one scenario, of one process's life."""

    def __init__(self, scenario: Scenario, views: Sequence[View]) -> None:
        self.seen: dict[View, Seen] = {}
        self.scenario = scenario
        self.views = views
        with Subject(
            scenario.fixture,
            *scenario.arguments,
            env=scenario.env,
            platform=scenario.platform,
            guard_regions=scenario.platform.release not in GUARDED,
        ) as subject:
            self.witness = testify(subject)
            self._look({"live": Live(subject.pid, subject.program)})
            makers = {"gcore": subject.gcore, "kernel": subject.kernel_core}
            wanted = {view.image for view in views}
            self._look(
                {
                    name: attempt(lambda make=make: Core(make(), subject.program))
                    for name, make in makers.items()
                    if name in wanted
                }
            )

    def _look(self, images: Mapping[str, Union[Image, BaseException]]) -> None:
        together: dict[tuple[str, bool], list[View]] = {}
        for view in self.views:
            image = images.get(view.image)
            if isinstance(image, BaseException):
                self.seen[view] = image
            elif image is not None:
                together.setdefault((view.door, view.symbols), []).append(view)
        for number, views in enumerate(together.values(), TABLE.index(self.scenario)):
            views.sort(key=lambda view: view.image, reverse=number % 2 == 1)
            asked = [(images[view.image], commands_for(view)) for view in views]
            self.seen.update(_run(views, asked))


def _run(views: Sequence[View], asked: Sequence[Asked]) -> dict[View, Seen]:
    door, symbols = DOORS[views[0].door], views[0].symbols
    said = attempt(lambda: opened(door).run_each(asked, symbols))
    if isinstance(said, BaseException):
        return dict.fromkeys(views, said)
    return {view: dict(zip(commands, outcomes)) for view, (_, commands), outcomes in zip(views, asked, said)}


def commands_for(view: View) -> Sequence[str]:
    if view.symbols and view.scenario == TABLE[0]:
        return COMMANDS
    asked = (*FIGURES, *SAID) if has_texts(view) else FIGURES
    return [command for command in asked if view.scenario.name in WITH_PINS or not command.startswith(PINS)]


def has_texts(view: View) -> bool:
    """SAID at least: of the first scenario every look with symbols, of the others those of `make test`."""
    return view.symbols and (view in SHORT or view.scenario == TABLE[0])


class Sight(Witness, Said):
    """One view, beside what is known without arenascope."""

    def __init__(self, view: View, photographs: Photographs) -> None:
        self.__dict__.update(photographs.witness.__dict__)
        self.view = view
        self.outcomes = unless_failed(photographs.seen[view])

    @property
    def live(self) -> bool:
        return self.view.image == "live"

    @property
    def has_texts(self) -> bool:
        """Whether SAID were given, or FIGURES alone."""
        return has_texts(self.view)

    @property
    def kind(self) -> str:
        return "live" if self.live else "core"

    @property
    def platform(self) -> Platform:
        return self.view.scenario.platform


class Album:
    """The scenarios that were looked at so far. Of each, all views are taken in one go that any test is going to ask
    for, and one of the living process beside them."""

    def __init__(self, wanted: Iterable[View]) -> None:
        self._wanted: dict[Scenario, set[View]] = {}
        for view in wanted:
            self._wanted.setdefault(view.scenario, {View(view.scenario, SHELL.name, "live", True)}).add(view)
        self._photographs = Kept()

    def sight(self, view: View) -> Sight:
        views = self._wanted[view.scenario]
        return Sight(
            view,
            self._photographs.get(
                view.scenario.id,
                lambda: Photographs(view.scenario, sorted(views, key=lambda each: (each.door, each.symbols))),
            ),
        )

    def alive(self, sight: Sight) -> Sight:
        """The same process, while it lived, with symbols: through the same door, if that was opened then."""
        same = View(sight.view.scenario, sight.view.door, "live", True)
        return self.sight(same) if same in self._wanted[sight.view.scenario] else self.shell(sight)

    def shell(self, sight: Sight) -> Sight:
        """The same process, while it lived, with symbols, by the shell: this look is always there."""
        return self.sight(View(sight.view.scenario, SHELL.name, "live", True))
