"""Every scenario is built once, looked at from all sides in one go, and ended; tests then read what was seen.

The order is what one process allows: what /proc and GDB itself say first, then each door on the live process, then
the two cores, of which the kernel's is the process's end. A door that looks at both opens one after the other, as to
start a debugger takes as long as what it is asked then; which comes first goes in turns.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Sequence, Union

import pytest
from doors import DOORS, GDB, Core, Image, Live
from looks import Asked, Outcome, opened
from platforms import Platform
from scenarios import GUARDED, SHORT, TABLE, Scenario, View
from shell_door import SHELL
from subjects import Subject

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


def known_of(subject: Subject) -> dict[str, Any]:
    """What is known of a subject without arenascope, by the names that a sight has for it."""
    known = {
        "pid": subject.pid,
        "truth": subject.truth,
        "info_xml": subject.info_xml,
        "stats_text": subject.stats_text,
        "live_blocks": subject.live_blocks,
        "present": subject.present(),
        "thread_names": subject.thread_names(),
        # by GDB from debug information: by tid what THREAD_WORDS names, and mp_'s fields
        "glibc_threads": {},
        "glibc_params": {},
    }
    if not GDB.available():
        steps = [{"each_thread": THREAD_WORDS}, {"value": "mp_"}]
        words, fields = GDB.drive(GDB.look_at(Live(subject.pid, subject.program)), steps, load=())
        known["glibc_threads"] = {int(tid): each for tid, each in words.value.items()}
        known["glibc_params"] = fields.value or {}
    return known


Seen = Union[dict[str, Outcome], BaseException]
"""What was said to each command, or why nothing was."""


def attempt(make: Callable[[], Any]) -> Any:
    """What it makes, or why it fails."""
    try:
        return make()
    except (Exception, pytest.skip.Exception, pytest.fail.Exception) as failure:
        return failure


def unless_failed(made: Any) -> Any:
    if isinstance(made, BaseException):
        raise made
    return made


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
            self.known = known_of(subject)
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


class Said:
    """What was said to each command."""

    outcomes: Mapping[str, Outcome]

    def text(self, command: str) -> str:
        outcome = self.outcomes[command]
        assert outcome.error is None, f"{command}: {outcome.error}"
        return outcome.text

    def json(self, command: str) -> dict[str, Any]:
        return self.outcomes[f"{command} --json"].json()


class Sight(Said):
    """One view, beside what is known without arenascope."""

    def __init__(self, view: View, photographs: Photographs) -> None:
        self.__dict__.update(photographs.known)
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
    def platform(self) -> Platform:
        return self.view.scenario.platform


class Album:
    """The scenarios that were looked at so far. Of each, all views are taken in one go that any test is going to ask
    for, and one of the living process beside them."""

    def __init__(self, wanted: Iterable[View]) -> None:
        self._wanted: dict[Scenario, set[View]] = {}
        for view in wanted:
            self._wanted.setdefault(view.scenario, {View(view.scenario, SHELL.name, "live", True)}).add(view)
        self._photographs: dict[Scenario, Any] = {}
        """Or why there are none."""

    def sight(self, view: View) -> Sight:
        scenario = view.scenario
        if scenario not in self._photographs:
            views = sorted(self._wanted[scenario], key=lambda each: (each.door, each.symbols))
            self._photographs[scenario] = attempt(lambda: Photographs(scenario, views))
        return Sight(view, unless_failed(self._photographs[scenario]))

    def alive(self, sight: Sight) -> Sight:
        """The same process, while it lived, with symbols: through the same door, if that was opened then."""
        same = View(sight.view.scenario, sight.view.door, "live", True)
        return self.sight(same) if same in self._wanted[sight.view.scenario] else self.shell(sight)

    def shell(self, sight: Sight) -> Sight:
        """The same process, while it lived, with symbols, by the shell: this look is always there."""
        return self.sight(View(sight.view.scenario, SHELL.name, "live", True))
