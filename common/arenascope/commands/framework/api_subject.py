"""A process or core as programs use it: each method runs a command and returns its document as a typed record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from argparse import Namespace
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Callable, Generic, Iterator, Mapping, TypeVar, Union

from ...base.errors import UsageError
from ...present.json_documents.record import Document
from .command import Command
from .find_command import find_command

if TYPE_CHECKING:
    from ..arenas import ArenasDocument
    from ..bins import BinsDocument
    from ..check import CheckDocument
    from ..chunk import ChunkDocument
    from ..chunks import ChunksDocument
    from ..containers import ContainersDocument
    from ..heaps import HeapsDocument
    from ..info import InfoDocument
    from ..leaks import LeaksDocument
    from ..map import MapDocument
    from ..mappings import MappingsDocument
    from ..mmapped import MmappedDocument
    from ..owner import OwnerDocument
    from ..owners import OwnersDocument
    from ..params import ParamsDocument
    from ..pins import PinsDocument
    from ..refs import RefsDocument
    from ..report import ReportDocument
    from ..stats import StatsDocument
    from ..threads import ThreadsDocument
    from ..trim import TrimDocument
    from ..types import TypesDocument
    from ..version import VersionDocument
    from ..waste import WasteDocument

Option = Union[str, int, bool, None]
"""An option's value; True for an option without one."""
AnyDocument = TypeVar("AnyDocument", bound=Document)


class _Asking(Generic[AnyDocument]):
    """A method that runs the command of its name. It takes the command's words, then its options."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._command = name

    def __get__(self, subject: Subject, kind: type) -> Callable[..., AnyDocument]:
        return partial(subject.ask, self._command)  # type: ignore[return-value]


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

    arenas: _Asking[ArenasDocument] = _Asking()
    trim: _Asking[TrimDocument] = _Asking()
    types: _Asking[TypesDocument] = _Asking()
    containers: _Asking[ContainersDocument] = _Asking()
    owners: _Asking[OwnersDocument] = _Asking()
    bins: _Asking[BinsDocument] = _Asking()
    check: _Asking[CheckDocument] = _Asking()
    heaps: _Asking[HeapsDocument] = _Asking()
    info: _Asking[InfoDocument] = _Asking()
    leaks: _Asking[LeaksDocument] = _Asking()
    chunk: _Asking[ChunkDocument] = _Asking()
    owner: _Asking[OwnerDocument] = _Asking()
    params: _Asking[ParamsDocument] = _Asking()
    pins: _Asking[PinsDocument] = _Asking()
    refs: _Asking[RefsDocument] = _Asking()
    report: _Asking[ReportDocument] = _Asking()
    stats: _Asking[StatsDocument] = _Asking()
    threads: _Asking[ThreadsDocument] = _Asking()
    chunks: _Asking[ChunksDocument] = _Asking()
    map: _Asking[MapDocument] = _Asking()
    mappings: _Asking[MappingsDocument] = _Asking()
    mmapped: _Asking[MmappedDocument] = _Asking()
    version: _Asking[VersionDocument] = _Asking()
    waste: _Asking[WasteDocument] = _Asking()


def option_words(options: Mapping[str, Option]) -> Iterator[str]:
    """The options as a user would type them."""
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif value is not None and value is not False:
            yield f"{option}={value}"
