"""`arenascope.open()`: a process or a core for Python programs."""

from __future__ import annotations

from argparse import Namespace
from contextlib import contextmanager
from typing import Callable, Iterator, Optional

from ..base.errors import HoldOver, UsageError
from ..base.heap_model import HOLD
from ..commands.framework.api_subject import Subject
from ..commands.framework.command import Command, document
from ..present.json_documents.record import Document
from .shell import How, QuietDoor, check_how, door_for, unbroken


class _Door(QuietDoor):
    kept = False
    """Whether the process stays held after a look."""

    @property
    def lets_go(self) -> bool:
        return not self.kept and super().lets_go

    def confirm(self, question: Callable[[], str]) -> bool:
        raise UsageError("there is nobody to ask", "yes=True says yes beforehand")

    def release(self) -> float:
        return 0.0 if self.kept else super().release()


class Opened(Subject):
    """A process or a core by its name. A process is held only while it is read."""

    def __init__(self, subject: str, how: How, hold_at_most: Optional[float] = None) -> None:
        """`hold_at_most`: seconds."""
        check_how(how, HOLD if hold_at_most is None else hold_at_most)
        self._subject, self._how, self._hold_at_most = subject, how, hold_at_most
        self._holds = False
        self._door: Optional[_Door] = None
        """Holds the process, from the first look inside hold() to its end."""

    def look(self, command: Command, options: Namespace) -> Document:
        if self._hold_at_most is not None:
            options.hold_at_most = self._hold_at_most
        if self._holds:
            return self._look_again(command, options)
        return unbroken(lambda: self._look(command, options))

    def _look(self, command: Command, options: Namespace) -> Document:
        with door_for(_Door, command, self._subject, how=self._how, options=options) as door:
            return document(command, options, door)

    def _look_again(self, command: Command, options: Namespace) -> Document:
        """Looks at the process that hold() holds."""
        if self._door is None:
            self._door = door_for(_Door, command, self._subject, how=self._how, options=options)
            self._door.kept, self._door.whole = True, False
        try:
            return document(command, options, self._door)
        except HoldOver as over:
            raise over.ended from None

    @contextmanager
    def hold(self) -> Iterator[Subject]:
        if self._holds:
            raise UsageError("it is held already")
        self._holds = True
        try:
            yield self
            if self._door is not None:
                self._door.let_go()
        finally:
            door, self._door, self._holds = self._door, None, False
            if door is not None:
                door.drop()
