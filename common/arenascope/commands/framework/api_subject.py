"""A process or core as programs use it: each method runs a command and returns its document as a typed record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import Namespace
from contextlib import contextmanager
from typing import Callable, Iterator, Mapping, TypeVar, Union

from ...base.errors import UsageError
from ...present.json_documents import arena_records, block_records, process_records
from ...present.json_documents.record import Document
from .command import Command

Option = Union[str, int, bool, None]
"""An option's value; True for an option without one."""
AnyDocument = TypeVar("AnyDocument", bound=Document)


class Subject(ABC):
    """A process or a core. Options are keyword arguments: `trim(ranges=True)`, `types(by="blocks")`."""

    def __init__(self, find_command: Callable[[str], Command]) -> None:
        self._find_command = find_command

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
            command = self._find_command(name)
        except KeyError:
            raise UsageError(f"there is no command {name!r}", "docs/commands.md has them all") from None
        typed = [f"{each:#x}" if isinstance(each, int) else each for each in words]
        return self.look(command, command.parser("arenascope").parse_args([*typed, *_typed(options), "--json"]))

    def _typed(self, kind: type[AnyDocument], options: Mapping[str, Option], *words: Union[str, int]) -> AnyDocument:
        document = self.ask(kind.of_command, *words, **options)
        assert isinstance(document, kind)
        return document

    def arenas(self, **options: Option) -> arena_records.ArenasDocument:
        return self._typed(arena_records.ArenasDocument, options)

    def trim(self, **options: Option) -> arena_records.TrimDocument:
        return self._typed(arena_records.TrimDocument, options)

    def types(self, **options: Option) -> block_records.TypesDocument:
        return self._typed(block_records.TypesDocument, options)

    def containers(self, **options: Option) -> block_records.ContainersDocument:
        return self._typed(block_records.ContainersDocument, options)

    def owners(self, **options: Option) -> block_records.OwnersDocument:
        return self._typed(block_records.OwnersDocument, options)

    def bins(self, **options: Option) -> arena_records.BinsDocument:
        return self._typed(arena_records.BinsDocument, options)

    def check(self, **options: Option) -> block_records.CheckDocument:
        return self._typed(block_records.CheckDocument, options)

    def heaps(self, **options: Option) -> arena_records.HeapsDocument:
        return self._typed(arena_records.HeapsDocument, options)

    def info(self, **options: Option) -> arena_records.InfoDocument:
        return self._typed(arena_records.InfoDocument, options)

    def leaks(self, **options: Option) -> block_records.LeaksDocument:
        return self._typed(block_records.LeaksDocument, options)

    def chunk(self, address: Union[str, int], **options: Option) -> block_records.ChunkDocument:
        return self._typed(block_records.ChunkDocument, options, address)

    def owner(self, address: Union[str, int], **options: Option) -> block_records.OwnerDocument:
        return self._typed(block_records.OwnerDocument, options, address)

    def params(self, **options: Option) -> arena_records.ParamsDocument:
        return self._typed(arena_records.ParamsDocument, options)

    def pins(self, **options: Option) -> block_records.PinsDocument:
        return self._typed(block_records.PinsDocument, options)

    def refs(self, address: Union[str, int], **options: Option) -> block_records.RefsDocument:
        return self._typed(block_records.RefsDocument, options, address)

    def report(self, **options: Option) -> process_records.ReportDocument:
        return self._typed(process_records.ReportDocument, options)

    def stats(self, **options: Option) -> arena_records.StatsDocument:
        return self._typed(arena_records.StatsDocument, options)

    def threads(self, **options: Option) -> arena_records.ThreadsDocument:
        return self._typed(arena_records.ThreadsDocument, options)

    def chunks(self, **options: Option) -> block_records.ChunksDocument:
        return self._typed(block_records.ChunksDocument, options)

    def map(self, **options: Option) -> block_records.MapDocument:
        return self._typed(block_records.MapDocument, options)

    def mappings(self, **options: Option) -> process_records.MappingsDocument:
        return self._typed(process_records.MappingsDocument, options)

    def mmapped(self, **options: Option) -> arena_records.MmappedDocument:
        return self._typed(arena_records.MmappedDocument, options)

    def waste(self, **options: Option) -> block_records.WasteDocument:
        return self._typed(block_records.WasteDocument, options)

    def version(self, **options: Option) -> arena_records.VersionDocument:
        return self._typed(arena_records.VersionDocument, options)


def _typed(options: Mapping[str, Option]) -> Iterator[str]:
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif value is not None and value is not False:
            yield f"{option}={value}"
