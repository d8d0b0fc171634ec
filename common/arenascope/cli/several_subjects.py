"""Runs one command over many processes and cores: `arenascope report --jsonl CORE...`, one JSON document a line.

Over more than one machine, an existing engine spreads the work: see cli/fleet/ and docs/fleet.md.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from concurrent.futures import ProcessPoolExecutor
from copy import copy
from multiprocessing import get_context
from typing import Iterator, NamedTuple, Optional, Sequence

from ..analysis.compare_snapshots import JsonObject
from ..base.about import INTERRUPTED
from ..base.background import processors
from ..base.errors import ArenascopeError, TargetError
from ..base.internal_error import STATUS, fault_id, fault_line
from ..base.printable import one_line
from ..base.process_limits import end_with_parent
from ..commands.framework.command import Context, Reads, answer
from ..commands.framework.find_command import find_command
from ..commands.snapshot import take
from ..present.json_documents.record import failure
from ..present.shared_text.lines_and_tables import Style
from .shell import AS_USUAL, How, QuietDoor, door_for, terminal_width, typed_program, unbroken


class SubjectRequest(NamedTuple):
    """A request for one subject. It is sent to another process."""

    subject: str
    command: str
    options: Namespace
    how: How = How()
    program: str = ""
    """The command shown in next steps; by default what the user typed."""


class SubjectAnswer(NamedTuple):
    subject: str
    text: str
    error: Optional[str]
    status: int
    error_id: str = ""
    """See ArenascopeError.id."""


class _Collecting(QuietDoor):
    """Collects the output and shows no notices, as lines about many subjects would mix."""

    program = ""

    def write(self, text: str) -> None:
        self.release()
        self.written.append(text)

    def style(self) -> Style:
        return Style(width=terminal_width(sys.stdout), program=self.program or typed_program(), subject=self._named)


def look(asked: SubjectRequest) -> SubjectAnswer:
    """Looks at one subject. An error becomes part of the answer."""
    # a look that starts again may change its options
    asked = asked._replace(options=copy(asked.options))
    asked.options.one_of_many = True
    try:
        return unbroken(lambda: _look(asked))
    except ArenascopeError as error:
        return SubjectAnswer(asked.subject, "", one_line(str(error)), 2, error_id=error.id)
    except Exception as error:
        # an internal error at one subject must not end the looks at the others
        return SubjectAnswer(
            asked.subject, "", fault_line(error, asked.command, "shell"), STATUS, error_id=fault_id(error)
        )


def _look(asked: SubjectRequest) -> SubjectAnswer:
    command = find_command(asked.command)
    with door_for(_Collecting, command, asked.subject, how=asked.how, options=asked.options) as door:
        door.program = asked.program
        status = answer(command, asked.options, door)
        door.release()
        return SubjectAnswer(asked.subject, "".join(door.written), None, status)


def figures(subject: str, types: bool = False, owners: bool = False) -> JsonObject:
    """A snapshot of one subject; only "error" if it could not be made."""
    try:
        return unbroken(lambda: _figures(subject, types, owners))
    except ArenascopeError as error:
        return {"error": one_line(str(error))}
    except Exception as error:
        return {"error": fault_line(error, "metrics", "shell")}


def _figures(subject: str, types: bool, owners: bool) -> JsonObject:
    # sweeping and naming need more than the lists
    options, lists = Namespace(libc=0, json=True), not (types or owners)
    reads = Reads(lists, copy=not lists, whole=not lists, mappings=lists)
    with _Collecting(subject, lists=lists) as door, Context(door, options, reads=reads) as context:
        documents = take(context, sizes=False, types=types, owners=owners)
        door.release()
        return documents


def document(subject: str, command: str = "report", program: str = "", how: How = AS_USUAL) -> JsonObject:
    """A command's JSON about one process or core, as a dict: the function that an engine's workers run."""
    options = find_command(command).parser("arenascope").parse_args(["--json"])
    return _document(look(SubjectRequest(subject, command, options, how=how, program=program)), command)


def _document(seen: SubjectAnswer, command: str) -> JsonObject:
    if seen.error is None:
        return {"subject": seen.subject, **json.loads(seen.text)}
    return failed(seen.subject, command, seen.error, seen.error_id)


def failed(subject: str, command: str, why: str, id: str = TargetError.id) -> JsonObject:
    """The document of a subject that could not be read."""
    return {"subject": subject, **failure(command, id, why).to_dict()}


def run(looks: Sequence[SubjectRequest], lines: bool) -> int:
    """Looks at all subjects, as many at a time as there are processors, and writes answers in the order named."""
    worst = 0
    for seen, asked in zip(_all(looks), looks):
        if lines:
            sys.stdout.write(json.dumps(_document(seen, asked.command), ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(f"== {one_line(seen.subject)}\n{seen.text or ''}")
            sys.stdout.write(f"{seen.error}\n\n" if seen.error else "\n")
        sys.stdout.flush()
        worst = max(worst, seen.status)
        if seen.status == INTERRUPTED:
            # Ctrl-C ends the command, not only the look that received it
            break
    return worst


def _all(looks: Sequence[SubjectRequest]) -> Iterator[SubjectAnswer]:
    most = min(processors(), len(looks))
    # a process can be held by one look at a time
    if most == 1 or len({each.subject for each in looks}) < len(looks):
        yield from map(look, looks)
        return
    # use fork, which is not Python 3.14's default: the fork server starts with the working directory on its path
    parent = os.getpid()
    with ProcessPoolExecutor(most, get_context("fork"), end_with_parent, (lambda: os.getppid() != parent,)) as pool:
        yield from pool.map(look, looks)
