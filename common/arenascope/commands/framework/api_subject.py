"""What a program looks at: each method is a command, called once, and gives its document as a typed record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import Namespace
from contextlib import contextmanager
from types import TracebackType
from typing import Callable, Iterator, Mapping, Optional, TypeVar, Union

from ...base.errors import UsageError
from ...present.json_documents import arena_records, chunk_records, glibc_records, owner_records
from ...present.json_documents.arena_records import Arenas
from ...present.json_documents.container_records import Containers
from ...present.json_documents.mapping_records import Mappings
from ...present.json_documents.owner_records import Owners
from ...present.json_documents.record import Document
from ...present.json_documents.report_records import Report
from ...present.json_documents.trim_records import Trim
from ...present.json_documents.type_records import Types
from .command import Command

Option = Union[str, int, bool, None]
"""As it is typed; True for one without a value."""
AnyDocument = TypeVar("AnyDocument", bound=Document)


class Subject(ABC):
    """A process or a core. A command's options are given by their names: `trim(ranges=True)`, `types(by="blocks")`."""

    def __init__(self, find_command: Callable[[str], Command]) -> None:
        self._find_command = find_command

    def __enter__(self) -> Subject:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        """Nothing is left to close: each look lets go of what it held."""
        return None

    @contextmanager
    def hold(self) -> Iterator[Subject]:
        """Several looks at the same moment: a process is held from the first of them to the end of the block."""
        yield self

    @abstractmethod
    def look(self, command: Command, options: Namespace) -> Document:
        """One look, by options as the shell has them."""

    def ask(self, name: str, *words: Union[str, int], **options: Option) -> Document:
        """Any command; of `words` an address may be a number."""
        try:
            command = self._find_command(name)
        except KeyError:
            raise UsageError(f"there is no command {name!r}", "docs/commands.md has them all") from None
        typed = [f"{each:#x}" if isinstance(each, int) else each for each in words]
        return self.look(command, command.parser("arenascope").parse_args([*typed, *_typed(options), "--json"]))

    def _typed(self, kind: type[AnyDocument], options: Mapping[str, Option], *words: Union[str, int]) -> AnyDocument:
        document = self.ask(kind.of_command, *words, **options)
        assert isinstance(document, kind)
        return document

    def arenas(self, **options: Option) -> Arenas:
        return self._typed(Arenas, options)

    def trim(self, **options: Option) -> Trim:
        return self._typed(Trim, options)

    def types(self, **options: Option) -> Types:
        return self._typed(Types, options)

    def containers(self, **options: Option) -> Containers:
        return self._typed(Containers, options)

    def owners(self, **options: Option) -> Owners:
        return self._typed(Owners, options)

    def bins(self, **options: Option) -> arena_records.Bins:
        return self._typed(arena_records.Bins, options)

    def check(self, **options: Option) -> chunk_records.Check:
        return self._typed(chunk_records.Check, options)

    def heaps(self, **options: Option) -> arena_records.Heaps:
        return self._typed(arena_records.Heaps, options)

    def info(self, **options: Option) -> glibc_records.Info:
        return self._typed(glibc_records.Info, options)

    def leaks(self, **options: Option) -> owner_records.Leaks:
        return self._typed(owner_records.Leaks, options)

    def chunk(self, address: Union[str, int], **options: Option) -> chunk_records.ChunkAt:
        return self._typed(chunk_records.ChunkAt, options, address)

    def owner(self, address: Union[str, int], **options: Option) -> owner_records.Way:
        return self._typed(owner_records.Way, options, address)

    def params(self, **options: Option) -> arena_records.Params:
        return self._typed(arena_records.Params, options)

    def pins(self, **options: Option) -> chunk_records.Pins:
        return self._typed(chunk_records.Pins, options)

    def refs(self, address: Union[str, int], **options: Option) -> owner_records.Refs:
        return self._typed(owner_records.Refs, options, address)

    def report(self, **options: Option) -> Report:
        return self._typed(Report, options)

    def stats(self, **options: Option) -> glibc_records.Stats:
        return self._typed(glibc_records.Stats, options)

    def threads(self, **options: Option) -> arena_records.Threads:
        return self._typed(arena_records.Threads, options)

    def chunks(self, **options: Option) -> chunk_records.ChunkList:
        return self._typed(chunk_records.ChunkList, options)

    def map(self, **options: Option) -> chunk_records.HeapMap:
        return self._typed(chunk_records.HeapMap, options)

    def mappings(self, **options: Option) -> Mappings:
        return self._typed(Mappings, options)

    def mmapped(self, **options: Option) -> arena_records.Mmapped:
        return self._typed(arena_records.Mmapped, options)

    def version(self, **options: Option) -> glibc_records.Version:
        return self._typed(glibc_records.Version, options)


def _typed(options: Mapping[str, Option]) -> Iterator[str]:
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif value is not None and value is not False:
            yield f"{option}={value}"
