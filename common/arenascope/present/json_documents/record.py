"""Typed records that documents are made of. The dict and the JSON Schema of each come from its fields:

    class Thread(Record):
        "A thread."
        tid: int
        "The thread's id in its process."

A field is a key in JSON; the text under it says what it means (schemas.py makes the schema of both). A field with a
default is a key that is there only if an option asks for it.
"""

from __future__ import annotations

import json
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Annotated, Iterable, Iterator, Mapping, Optional, Sequence, TypeVar

from ...base.heap_model import Statement
from ...base.printable import one_line
from ..shared_text.problem_sentences import sentence

if TYPE_CHECKING:
    from ...glibc.find.main_arena import Located
    from ...sources.target import Target

IN_MEMORY = 1 << 20
"""In bytes."""
BLOCK = 1 << 20


class Spool:
    """Lines, kept in memory while they are few, then in an unnamed file."""

    def __init__(self) -> None:
        self.count = 0
        self._file = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - lives as long as this

    def add(self, line: str) -> None:
        self._file.write(f"{line}\n".encode())
        self.count += 1

    def __iter__(self) -> Iterator[str]:
        """The lines without newlines."""
        self._file.seek(0)
        for line in self._file:
            yield line[:-1].decode()


def in_blocks(parts: Iterable[str]) -> Iterator[str]:
    """The same text in fewer, larger parts."""
    kept: list[str] = []
    size = 0
    for part in parts:
        kept.append(part)
        size += len(part)
        if size >= BLOCK:
            yield "".join(kept)
            kept, size = [], 0
    yield "".join(kept)


if TYPE_CHECKING:
    from typing import dataclass_transform  # novermin
else:

    def dataclass_transform(**how):
        return lambda kind: kind


Size = Annotated[int, ("minimum", 0)]
"""Bytes or a count: never negative."""
Address = Annotated[str, ("pattern", "^0x[0-9a-f]+$")]
Identity = Annotated[str, ("pattern", "^[a-z0-9]+(-[a-z0-9]+)*$")]
JUDGEMENT = "The verdict, apart from its words"
RangeRecord = tuple[Annotated[Address, "Its start"], Annotated[int, "Its bytes"]]
AnyRecord = TypeVar("AnyRecord", bound="Record")


@dataclass_transform(kw_only_default=True)
class Record:
    """Base of records. Keys come in the order of fields, inherited ones first; the field "for_" is the key "for", a
    Python keyword. (Not a dataclass: creating one takes half a millisecond, which every command would wait for.)"""

    _fields: tuple[str, ...] = ()
    _addresses: frozenset[str] = frozenset()
    """The fields of addresses: their numbers become text."""

    def __init_subclass__(cls, first: bool = False) -> None:
        """`first`: its own fields come before inherited ones."""
        inherited = [name for base in cls.__bases__ for name in getattr(base, "_fields", ())]
        own = [name for name in cls.__annotations__ if name[0] != "_"]
        cls._fields = tuple(dict.fromkeys((*own, *inherited) if first else (*inherited, *own)))
        addresses = [name for name in own if "Address" in str(cls.__annotations__[name])]
        cls._addresses = frozenset(addresses).union(*(getattr(base, "_addresses", ()) for base in cls.__bases__))

    @classmethod
    def of(cls: type[AnyRecord], *sources: object, **others: object) -> AnyRecord:
        """Makes a record from attributes of the same names, with or without "_bytes", of the first source that has
        each; what only a source that is None would tell is None. A key with a default is set only if it is given."""
        for name in cls._fields:
            if name not in others and not hasattr(cls, name):
                places = ((each, called) for each in sources for called in (name, name.removesuffix("_bytes")))
                source, called = next((place for place in places if hasattr(*place)), (sources[0], name))
                others[name] = None if None in sources and not hasattr(source, called) else getattr(source, called)
        assert others.keys() <= set(cls._fields), others.keys() - set(cls._fields)
        return cls(**others)

    def __init__(self, **values: object) -> None:
        self._left_out = frozenset(self._fields).difference(values)
        for name, value in values.items():
            setattr(self, name, in_hexadecimal(value) if name in self._addresses else value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def items(self) -> Iterator[tuple[str, object]]:
        """The keys that are set, and their values."""
        return ((key_of(name), getattr(self, name)) for name in self._fields if name not in self._left_out)

    def to_dict(self) -> dict[str, object]:
        """The record as JSON."""
        return {name: plain(value) for name, value in self.items()}


def in_hexadecimal(value: object) -> object:
    """Addresses as text: one or several."""
    if isinstance(value, (list, tuple)):
        return [in_hexadecimal(each) for each in value]
    return hexadecimal(value) if isinstance(value, int) else value


def key_of(field: str) -> str:
    return "for" if field == "for_" else field


def plain(value: object) -> object:
    """The value as the json module can write it, with lists for all sequences."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, Spool):
        return [json.loads(line) for line in value]
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


class StatementRecord(Record):
    """A statement: what was concluded, and its words."""

    id: Identity
    """What it says; stays the same from release to release."""
    figures: Mapping[str, Annotated[Optional[float], "A figure"]]
    """What shows it, as numbers; null: not known."""
    names: Mapping[str, Annotated[str, "A name"]]
    """What else shows it and is no number: addresses, names."""
    text: str
    """The same in words, which may change from release to release."""


def statement_record(said: Statement, text: str) -> StatementRecord:
    return StatementRecord(id=said.id, figures=said.figures, names=said.names, text=text)


class ChunkTally(Record):
    """Chunks of some kind."""

    chunks: Optional[Size]
    """How many; null where it is not known."""
    bytes: Optional[Size]
    """Their bytes; null where that is not known."""


class TargetRecord(Record):
    """What was looked at."""

    kind: Annotated[str, ("enum", ("live", "core"))]
    """A process, or a core."""
    pid: Optional[int]
    """Its pid, where that is known."""
    pointer_bytes: Annotated[int, ("enum", (4, 8))]
    """How wide its addresses are."""
    page_bytes: Size
    """Its page."""


class Glibc(Record):
    """The glibc that was looked at."""

    version: Optional[str]
    """Its release."""
    located_by: Annotated[str, ("enum", ("symbols", "scan"))]
    """How it was found."""
    main_arena: Address
    """Its main_arena."""


SCHEMA = 1
ENVELOPE = "envelope"
Form = Annotated[int, ("enum", (SCHEMA,)), "The form of these documents"]
Problems = Annotated[Sequence[str], "What a reader must know before trusting a figure"]
ProblemRecords = Annotated[Sequence[StatementRecord], "The same, apart from their words"]


class Envelope(Record):
    """What every document has."""

    schema: Form
    command: str
    """The command."""
    door: Annotated[str, ("enum", ("gdb", "lldb", "shell"))]
    """Where it was typed."""
    complete: bool
    """Whether there is no problem."""
    problems: Problems
    problem_records: ProblemRecords
    target: Optional[TargetRecord]
    """What was looked at; null: nothing."""
    glibc: Optional[Glibc]
    """The glibc that was looked at; null: none was."""
    held_seconds: Optional[float]
    """For how long a live process was held; null: it was not, or by a debugger."""
    rules: Sequence[Annotated[str, "A file"]]
    """The files of rules by which blocks were named; empty: by none."""


class InList(Record):
    """What --jsonl puts in front of each document."""

    subject: str = ""
    """With --jsonl: the process or core, as it was named."""


class Failed(InList):
    """What stands in its document's place."""

    schema: Form
    command: str
    """What was asked."""
    complete: Annotated[bool, ("enum", (False,))]
    """Nothing could be read."""
    problems: Problems
    problem_records: ProblemRecords
    error: str
    """Why, in words."""


def envelope_of(
    command: str,
    door: str,
    target: Optional[Target],
    located: Optional[Located],
    problems: Sequence[Statement],
    held_seconds: Optional[float] = None,
    rules: Sequence[str] = (),
) -> Envelope:
    texts = [sentence(each) for each in problems]
    return Envelope(
        schema=SCHEMA,
        command=command,
        door=door,
        complete=not problems,
        problems=texts,
        problem_records=[statement_record(each, text) for each, text in zip(problems, texts)],
        target=None
        if target is None
        else TargetRecord.of(target, pointer_bytes=target.pointer_size, page_bytes=target.page_size),
        glibc=located and Glibc.of(located),
        held_seconds=held_seconds,
        rules=list(rules),
    )


class Document(Record):
    """What a command found: its own keys are its fields, `envelope` has those of every document."""

    envelope: Envelope = envelope_of("", "", None, None, problems=())
    """What every document has."""
    of_command = ""
    """The command whose document it is."""

    def __init_subclass__(cls, first: bool = False, command: str = "") -> None:
        super().__init_subclass__(first)
        cls.of_command = command

    @property
    def complete(self) -> bool:
        """Whether there are no problems."""
        return self.envelope.complete

    @property
    def problems(self) -> Sequence[str]:
        """Problems that a reader must know before trusting a figure, in words."""
        return self.envelope.problems

    def within(self, envelope: Envelope) -> None:
        """Sets the envelope, once all was read."""
        self.envelope = envelope

    def own(self) -> Mapping[str, object]:
        """The command's own keys, as JSON."""
        return super().to_dict()

    def to_dict(self) -> dict[str, object]:
        return {**self.envelope.to_dict(), **self.own()}

    def __getitem__(self, key: str) -> object:
        """A value of to_dict()."""
        return self.to_dict()[key]


def written(document: Document) -> Iterator[str]:
    """A document in parts, its keys in the documented order. A Spool becomes the list of its lines."""
    mark = "{"
    for key, value in chain(document.envelope.items(), document.items()):
        yield f"{mark}{json.dumps(key)}: "
        if isinstance(value, Spool):
            yield "["
            yield from (f", {line}" if index else line for index, line in enumerate(value))
            yield "]"
        else:
            yield json.dumps(value, ensure_ascii=False, default=plain)
        mark = ", "
    yield "}\n"


def failure(command: str, id: str, error: str) -> Failed:
    """The document of a command that failed. `id`: see ArenascopeError."""
    return Failed(
        schema=SCHEMA,
        command=command,
        complete=False,
        problems=[error],
        problem_records=[statement_record(Statement(id), error)],
        error=error,
    )


def failed(name: str, words: Iterable[str], id: str, error: str) -> str:
    """The text that a failed command prints if --json or --jsonl was given; "" otherwise."""
    if not any(word.startswith("--j") and "--json".startswith(word) for word in words):
        return ""

    text = json.dumps(failure(name, id, one_line(error)).to_dict(), ensure_ascii=False)
    return f"{text}\n"


def hexadecimal(value: int) -> str:
    return f"{value:#x}"
