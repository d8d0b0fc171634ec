"""What the albums share: what takes long to make is made once, or the reason kept why it could not be."""

from __future__ import annotations

from typing import Any, Callable, Hashable, Mapping, Sequence, TypeVar, Union

import pytest
from looks import Outcome

FAILURES = (Exception, pytest.skip.Exception, pytest.fail.Exception)
Made = TypeVar("Made")
Seen = Union[dict[str, Outcome], BaseException]
"""What was said to each command, or why nothing was."""


def attempt(make: Callable[[], Made]) -> Union[Made, BaseException]:
    try:
        return make()
    except FAILURES as failure:
        return failure


def unless_failed(made: Union[Made, BaseException]) -> Made:
    if isinstance(made, BaseException):
        raise made
    return made


class Kept:
    """Things by key, each attempted once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        if key not in self._made:
            self._made[key] = attempt(make)
        made: Union[Made, BaseException] = self._made[key]
        return unless_failed(made)


class Said:
    """What was said to each command."""

    outcomes: Mapping[str, Outcome]

    def text(self, command: str) -> str:
        outcome = self.outcomes[command]
        assert outcome.error is None, f"{command}: {outcome.error}"
        return outcome.text

    def json(self, command: str) -> dict[str, Any]:
        return self.outcomes[f"{command} --json"].json()


def by_command(commands: Sequence[str], look: Callable[[], Sequence[Outcome]]) -> Seen:
    return attempt(lambda: dict(zip(commands, look())))
