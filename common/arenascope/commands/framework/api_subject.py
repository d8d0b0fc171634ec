"""A process or core as programs use it: each method runs a command and returns its document as a typed record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import Namespace
from contextlib import contextmanager
from typing import Callable, Iterator, Mapping, TypeVar, Union

from ...base.errors import UsageError
from ...present.json_documents import arena_records, block_records, process_records
from ...present.json_documents.record import Document
from .all_commands import find_command
from .command import Command

Option = Union[str, int, bool, None]
"""An option's value; True for an option without one."""
AnyDocument = TypeVar("AnyDocument", bound=Document)


def _asking(kind: type[AnyDocument]) -> Callable[..., AnyDocument]:
    """A method that runs the command with this document. It takes the command's words, then its options."""

    def method(self: Subject, *words: Union[str, int], **options: Option) -> AnyDocument:
        document = self.ask(kind.of_command, *words, **options)
        assert isinstance(document, kind)
        return document

    method.__annotations__["return"] = kind
    return method


class Subject(ABC):
    """A process or a core. Options are keyword arguments: `trim(ranges=True)`, `types(by="blocks")`."""

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: each look has released what it held."""
        return None

    @contextmanager
    def hold(self) -> Iterator[Subject]:
        """Several looks at the same moment: a process is held from the first look to the end of the block."""
        yield self

    @abstractmethod
    def look(self, command: Command, options: Namespace) -> Document:
        """Runs one command, with options as in the shell."""

    def ask(self, name: str, *words: Union[str, int], **options: Option) -> Document:
        """Runs any command; a word that is an address may be a number."""
        try:
            command = find_command(name)
        except KeyError:
            raise UsageError(f"there is no command {name!r}", "docs/commands.md has them all") from None
        typed = [f"{each:#x}" if isinstance(each, int) else each for each in words]
        return self.look(command, command.parser("arenascope").parse_args([*typed, *option_words(options), "--json"]))

    arenas = _asking(arena_records.ArenasDocument)
    trim = _asking(arena_records.TrimDocument)
    types = _asking(block_records.TypesDocument)
    containers = _asking(block_records.ContainersDocument)
    owners = _asking(block_records.OwnersDocument)
    bins = _asking(arena_records.BinsDocument)
    check = _asking(block_records.CheckDocument)
    heaps = _asking(arena_records.HeapsDocument)
    info = _asking(arena_records.InfoDocument)
    leaks = _asking(block_records.LeaksDocument)
    chunk = _asking(block_records.ChunkDocument)
    owner = _asking(block_records.OwnerDocument)
    params = _asking(arena_records.ParamsDocument)
    pins = _asking(block_records.PinsDocument)
    refs = _asking(block_records.RefsDocument)
    report = _asking(process_records.ReportDocument)
    stats = _asking(arena_records.StatsDocument)
    threads = _asking(arena_records.ThreadsDocument)
    chunks = _asking(block_records.ChunksDocument)
    map = _asking(block_records.MapDocument)
    mappings = _asking(process_records.MappingsDocument)
    mmapped = _asking(arena_records.MmappedDocument)
    version = _asking(arena_records.VersionDocument)
    waste = _asking(block_records.WasteDocument)


def option_words(options: Mapping[str, Option]) -> Iterator[str]:
    """The options as a user would type them."""
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif value is not None and value is not False:
            yield f"{option}={value}"
