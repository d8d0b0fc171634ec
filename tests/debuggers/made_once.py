"""One test judges all looks at one image, and tells of each that fails."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence, Union

import pytest
from looks import Outcome

FAILURES = (Exception, pytest.skip.Exception, pytest.fail.Exception)
Seen = Union[dict[str, Outcome], BaseException]
"""What was said to each command, or why nothing was."""


def attempt(make: Callable[[], Any]) -> Any:
    """What it makes, or why it fails."""
    try:
        return make()
    except FAILURES as failure:
        return failure


def unless_failed(made: Any) -> Any:
    if isinstance(made, BaseException):
        raise made
    return made


class Said:
    """What was said to each command."""

    outcomes: Mapping[str, Outcome]

    def text(self, command: str) -> str:
        outcome = self.outcomes[command]
        assert outcome.error is None, f"{command}: {outcome.error}"
        return outcome.text

    def json(self, command: str) -> dict[str, Any]:
        return self.outcomes[f"{command} --json"].json()


@dataclass(frozen=True)
class Looks:
    """The looks at one image that one test judges: its parameter `sight`."""

    id: str
    views: tuple[Any, ...]


@dataclass(frozen=True)
class Sights:
    """The looks, with a function that takes each."""

    looks: Looks
    sight: Callable[[Any], Any]

    def judge(self, test: Callable[[Any], None]) -> None:
        found: dict[str, list[tuple[Any, BaseException]]] = {"failed": [], "skipped": []}
        for view in self.looks.views:
            failure = attempt(lambda view=view: test(self.sight(view)))
            if failure is not None:
                outcome = "skipped" if isinstance(failure, pytest.skip.Exception) else "failed"
                found[outcome].append((view, failure))
        if found["failed"]:
            pytest.fail(self._told(found["failed"]), pytrace=False)
        if len(found["skipped"]) == len(self.looks.views):
            raise found["skipped"][0][1]

    def _told(self, failed: Sequence[tuple[Any, BaseException]]) -> str:
        """First in one line, which also ends the run's summary; then each look's own story."""
        view, failure = failed[0]
        first = f"{view.id}: {str(failure).strip().partition(chr(10))[0]}"
        stories = [f"--- {view.id}\n{story(failure)}" for view, failure in failed]
        return "\n".join([f"{len(failed)} of {len(self.looks.views)} looks, first {first}", *stories])


def story(failure: BaseException) -> str:
    """As pytest tells it, from the test's own lines on."""
    excinfo = pytest.ExceptionInfo.from_exception(failure)
    excinfo.traceback = excinfo.traceback.filter(lambda entry: str(entry.path) != __file__)
    return str(excinfo.getrepr(style="short", truncate_locals=False))


def each_look(test: Callable[..., None]) -> Callable[..., None]:
    """The test of one `sight`, as a test of all that are made of one image."""

    @functools.wraps(test)
    def every_look(sight: Sights, **others: Any) -> None:
        sight.judge(lambda each: test(sight=each, **others))

    return every_look
