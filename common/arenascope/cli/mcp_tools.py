"""The tools of `arenascope mcp`: one for each command that needs no file.

A tool has only arguments whose values BY_VALUE knows, so that no option that names a file is among them. A call is
turned into a command line and parsed by the command's own parser.
"""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from ..base.argv import pid_in
from ..base.errors import TargetError, UsageError
from ..base.model import Statement
from ..base.printable import one_line, printable
from ..commands.all_commands import all_commands
from ..commands.framework.arguments import Argument
from ..commands.framework.command import LIMIT, WITH_VALUES, Command
from ..present.formats.json import written
from ..present.json_documents.chunk_records import ChunkDocument
from ..present.json_documents.record import Envelope, statement_record
from ..present.json_documents.schemas import schemas
from ..present.shared_text.findings import sentence
from ..sources.live.procfiles import born, name_of
from .api import Opened
from .shell import How, seconds_to_hold

Schema = Mapping[str, Any]
MOST = 1000
"""The most rows, words or cells."""
MOST_SECONDS = 60
"""The most seconds between two looks."""
LONGEST = 200
"""The longest name or pattern."""
LARGEST = 400_000
"""The longest answer, in characters."""
BY_VALUE: Mapping[str, Schema] = {
    "N": {"type": "integer", "minimum": 0, "maximum": MOST},
    "TIME": {"type": "number", "minimum": 1, "maximum": MOST_SECONDS},
    "SIZE": {"type": "string", "pattern": r"^[0-9]{1,15}(\.[0-9]{1,6})?([KMGT](i?B)?)?$"},
    "PATTERN": {"type": "string", "minLength": 1, "maxLength": LONGEST},
    "NAME": {"type": "string", "minLength": 1, "maxLength": LONGEST},
    "ADDRESS": {"type": "string", "pattern": "^0x[0-9a-fA-F]{1,16}$"},
}
"""Schemas of the values that an assistant may give, by the value's name in the command's help."""
APPLY, YES = "--apply", "--yes"
SETTLED = (APPLY, YES, "--even-under-seccomp", *WITH_VALUES.names)
"""Options that were decided when the server was started, or that only a user may give."""
CONTENTS = "--words"


class Allowed(NamedTuple):
    apply: bool = False
    values: bool = False
    hold_at_most: Optional[float] = None
    """Seconds; None: the default."""


class NamedSubject:
    """A process or core that was named. A later process with the same pid is another one."""

    def __init__(self, subject: str, allowed: Allowed) -> None:
        self.subject = subject
        self.opened = Opened(subject, How(), allowed.hold_at_most)
        pid = pid_in(subject)
        self.pid = None if pid is None else int(pid)
        self._born = self._born_now()
        self.title = f"{subject} is {self._what()}"

    def _what(self) -> str:
        return "a core" if self.pid is None else f"the process {one_line(name_of(self.pid))}"

    def _born_now(self) -> Optional[int]:
        try:
            return None if self.pid is None else born(self.pid)
        except OSError:
            raise TargetError(f"there is no process {self.pid}") from None

    def check(self) -> None:
        """TargetError if the pid now belongs to another process."""
        if self._born_now() != self._born:
            raise TargetError(f"the process {self.pid} that was named has ended, and another one has its pid")


class Tool(NamedTuple):
    command: Command
    named: Mapping[str, NamedSubject]
    allowed: Allowed
    arguments: Mapping[str, Argument]
    applies: bool = False
    """Whether it changes the process."""

    @property
    def name(self) -> str:
        return f"{self.command.name}_apply" if self.applies else self.command.name

    @property
    def description(self) -> str:
        said = [self.command.summary, self.command.description]
        if self.applies:
            said.append("This tool does it, in the process, and asks nobody first.")
        if any(each.pid is not None for each in self.named.values()):
            seconds = seconds_to_hold(Namespace(hold_at_most=self.allowed.hold_at_most, apply=self.applies))
            said.append(f"A process stands still while it is read, for {seconds:g} s at most.")
        if not self.allowed.values:
            said.append("What blocks hold is left out.")
        return " ".join(each for each in said if each)

    @property
    def input_schema(self) -> dict[str, Any]:
        subject = {
            "type": "string",
            "enum": list(self.named),
            "description": "; ".join(each.title for each in self.named.values()),
        }
        arguments = {
            name: {**(_value(each) or {}), "description": _help(each)} for name, each in self.arguments.items()
        }
        needed = [name for name, each in self.arguments.items() if _is_needed(each)]
        return {
            "type": "object",
            "properties": {"subject": subject, **arguments},
            "required": ["subject", *needed],
            "additionalProperties": False,
        }

    @property
    def output_schema(self) -> dict[str, Any]:
        return schemas()[self.command.name]

    def answer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The command's document. `given`: arguments as the schema has them."""
        named = self.named[given["subject"]]
        named.check()
        document = named.opened.look(self.command, self._options(given))
        named.check()
        if isinstance(document, ChunkDocument) and not self.allowed.values:
            document = document.without_contents()
        answer: dict[str, Any] = json.loads(printable("".join(written(document))))
        limit = self.arguments.get("limit")
        if limit is not None:
            _leave_out(answer, given.get("limit") or limit.options["default"])
        length = len(json.dumps(answer, ensure_ascii=False))
        if length > LARGEST:
            raise UsageError(f"the answer has {length:,} characters", "a smaller limit, one arena, or fewer options")
        return {"subject": named.subject, **answer}

    def _options(self, given: Mapping[str, Any]) -> Namespace:
        words, places = ["--json"], []
        for name, each in self.arguments.items():
            value = given.get(name)
            if not each.is_option:
                places += value if isinstance(value, list) else [value] if value is not None else []
            elif value is True:
                words.append(each.long_names[0])
            elif value is not None and value is not False:
                words.append(f"{each.long_names[0]}={value}")
        if self.applies:
            words += [APPLY, YES]
        if self.allowed.values and WITH_VALUES in self.command.arguments:
            words += WITH_VALUES.names
        return self.command.parser("arenascope").parse_args([*words, "--", *places])


def tools_for(named: Sequence[NamedSubject], allowed: Allowed) -> list[Tool]:
    found = []
    for command in all_commands():
        offered = {
            _key(each): each
            for each in command.arguments
            if _value(each) is not None and (allowed.values or CONTENTS not in each.names)
        }
        if any(not each.is_option and _key(each) not in offered for each in command.arguments):
            continue  # it needs a file
        found.append(Tool(command, {each.subject: each for each in named}, allowed, offered))
        live = {each.subject: each for each in named if each.pid is not None}
        if allowed.apply and live and any(APPLY in each.names for each in command.arguments):
            found.append(Tool(command, live, allowed, offered, applies=True))
    return found


def _leave_out(answer: dict[str, Any], limit: int) -> None:
    """Cuts tables that --json writes whole to `limit` rows; a problem says so."""
    for key, rows in list(answer.items()):
        if key not in Envelope._fields and isinstance(rows, list) and len(rows) > limit:
            said = Statement("rows-left-out", {"rows": len(rows), "shown": limit}, {"key": key})
            answer.update({key: rows[:limit], "complete": False})
            answer["problems"].append(sentence(said))
            answer["problem_records"].append(statement_record(said, sentence(said)).to_dict())


def _key(each: Argument) -> str:
    return (each.long_names or each.names)[0].lstrip("-").replace("-", "_")


def _help(each: Argument) -> str:
    return each.help.replace(" (0: all)", "").replace("an address, or an expression", "an address")


def _is_needed(each: Argument) -> bool:
    return not each.is_option and each.options.get("nargs") != "?"


def _value(each: Argument) -> Optional[Schema]:
    """The schema of an argument's value; None: an assistant may not give it."""
    if not set(SETTLED).isdisjoint(each.names):
        return None
    if each.options.get("action") == "store_true":
        return {"type": "boolean"}
    if each.choices:
        return {"type": "string", "enum": each.choices}
    schema = BY_VALUE.get(each.value)
    if schema is None:
        return None
    if LIMIT.names == each.names:
        schema = {**schema, "minimum": 1, "default": each.options["default"]}
    if each.options.get("nargs") == "+":
        return {"type": "array", "items": schema, "minItems": 1, "maxItems": 16}
    return schema
