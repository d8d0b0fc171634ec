"""Whether `watch` asks for types and owners by itself: where such a look costs little of the interval and of memory.
Before the first one that is foretold from the process as it runs; then what the last ones took counts."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..commands.steps.look_cost import LookCost, foretold_cost
from ..present.shared_text.text import Style, duration
from ..session.session import Session
from ..sources.live.cgroups import memory_left
from ..sources.live.procfiles import read_status
from .shell import How, QuietDoor
from .subjects import as_subject

SHARE = 0.2
"""Of the interval, for all processes together: so long may looks with types take."""
HELD = 0.02
"""Of the interval: so long may one process stand still for one."""
MEMORY = 4
"""So many times what its copy takes has to be left."""
ROOM = 1.25
"""An interval that is advised is longer than needed by so much: no two looks take as long."""


class AutoLookRule(NamedTuple):
    interval: float
    processes: int = 1
    """How many are looked at in it, one after the other."""

    def why_not(self, cost: LookCost, copied: int, left: int) -> str:
        """Why such a look is too much, and which interval would do; "" where it is not. `left`: see memory_left."""
        if cost.whole * self.processes > SHARE * self.interval or cost.held > HELD * self.interval:
            needed = max(cost.whole * self.processes / SHARE, cost.held / HELD) * ROOM
            return (
                f"a look with them takes {duration(cost.whole)}, {duration(cost.held)} of it with the process held: "
                f"too much every {self.interval:g} s; --interval {math.ceil(needed)}s is enough"
            )
        if MEMORY * copied > left:
            say = Style().size
            return f"a copy of it takes {say(copied)} and {say(left)} of memory are left: too little"
        return ""


class UnaskedTypes:
    """Of one process that is looked at again and again."""

    def __init__(self, pid: int, rule: AutoLookRule) -> None:
        self._pid, self._rule = pid, rule
        self._costs: list[LookCost] = []
        self._told = False

    def why_not(self) -> str:
        """At the next look; "" where types are right."""
        if not self._costs:
            self._costs.append(_foretold(self._pid))
        # one look that took long tells of that moment alone
        cost = LookCost(*map(min, zip(*self._costs[-2:])))
        return self._rule.why_not(cost, read_status(self._pid).rss or 0, memory_left())

    def took(self, cost: LookCost) -> None:
        self._costs = [*self._costs[-1:], cost]

    def told_once(self, why_not: str) -> str:
        """The reason, the first time."""
        told, self._told = self._told, self._told or bool(why_not)
        return "" if told else why_not


def _foretold(pid: int) -> LookCost:
    """It runs on under the reader: what breaks is asked again when it is held."""
    with QuietDoor(as_subject(str(pid)), How(stop="none")) as door:
        return foretold_cost(Session(door.target()))
