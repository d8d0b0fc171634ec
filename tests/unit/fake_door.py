"""A door that writes into a list: commands run through it as they do from a debugger."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Sequence

from fake_target import FakeTarget
from schemas import valid

from arenascope.base.errors import UsageError
from arenascope.commands.framework.command import Controller, execute
from arenascope.commands.framework.find_command import find_command
from arenascope.present.shared_text.lines_and_tables import Style
from arenascope.session.session import Session
from arenascope.sources.target import Target


@dataclass
class FakeDoor:
    image: FakeTarget
    name: str = "shell"
    lets_go: bool = False
    held_seconds: Optional[float] = None
    written: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def target(self) -> FakeTarget:
        return self.image

    def controller(self) -> Optional[Controller]:
        return None

    def confirm(self, question: Callable[[], str]) -> bool:
        raise UsageError("nobody to ask")

    def style(self) -> Style:
        return Style(width=0)

    def write(self, text: str) -> None:
        self.written.append(text)

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def before_hold(self, work: Callable[[Target], None]) -> None:
        pass

    def release(self) -> float:
        return 0.0

    def describe(self) -> Sequence[str]:
        return ["a test"]


ADDRESSED = ("chunk", "refs", "owner")


def a_chunk(target: FakeTarget) -> str:
    """The address of some chunk, for a command that wants one."""
    heaps = next(iter(Session(target).heaps.values()), ())
    return f"{heaps[0].address + 64:#x}" if heaps else "0x1000"


def run_text(target: FakeTarget, command: str, *words: str) -> str:
    door = FakeDoor(target)
    if command in ADDRESSED and not any(word.startswith("0x") for word in words):
        words = (*words, a_chunk(target))
    execute(find_command(command), list(words), door)
    return "".join(door.written)


def run_json(target: FakeTarget, command: str, *words: str) -> dict[str, Any]:
    """The command's document: exactly one, nothing but it, and as its schema says."""
    document = json.loads(run_text(target, command, "--json", *words))
    assert isinstance(document, dict)
    return valid(document)
