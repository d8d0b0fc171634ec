"""What a program looks at: each method is a command, called once, and gives its document as a typed record."""

from __future__ import annotations

from argparse import Namespace
from contextlib import contextmanager
from types import TracebackType
from typing import Callable, Iterator, Mapping, Optional, TypeVar, Union

from ...base.errors import UsageError
from ...present.documents.arena_records import Arenas
from ...present.documents.owner_records import Owners
from ...present.documents.record import Document
from ...present.documents.trim_records import Trim
from ...present.documents.type_records import Types
from .command import Command

Option = Union[str, int, bool, None]
"""As it is typed; True for one without a value."""
AnyDocument = TypeVar("AnyDocument", bound=Document)


class Subject:
    """A process or a core. A command's options are given by their names: `trim(ranges=True)`, `types(by="blocks")`."""

    def __init__(self, find_command: Callable[[str], Command]) -> None:
        self._find_command = find_command

    def __enter__(self) -> Subject:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        pass

    @contextmanager
    def hold(self) -> Iterator[Subject]:
        """Several looks at the same moment: a process is held from the first of them to the end of the block."""
        yield self

    def look(self, command: Command, options: Namespace) -> Document:
        """One look, by options as the shell has them."""
        raise NotImplementedError

    def ask(self, name: str, *words: Union[str, int], **options: Option) -> Document:
        """Any command; of `words` an address may be a number."""
        try:
            command = self._find_command(name)
        except KeyError:
            raise UsageError(f"there is no command {name!r}", "docs/commands.md has them all") from None
        typed = [f"{each:#x}" if isinstance(each, int) else each for each in words]
        return self.look(command, command.parser("arenascope").parse_args([*typed, *_typed(options), "--json"]))

    def _typed(self, kind: type[AnyDocument], name: str, options: Mapping[str, Option]) -> AnyDocument:
        document = self.ask(name, **options)
        assert isinstance(document, kind)
        return document

    def arenas(self, **options: Option) -> Arenas:
        return self._typed(Arenas, "arenas", options)

    def trim(self, **options: Option) -> Trim:
        return self._typed(Trim, "trim", options)

    def types(self, **options: Option) -> Types:
        return self._typed(Types, "types", options)

    def owners(self, **options: Option) -> Owners:
        return self._typed(Owners, "owners", options)

    def bins(self, **options: Option) -> Document:
        return self.ask("bins", **options)

    def check(self, **options: Option) -> Document:
        return self.ask("check", **options)

    def heaps(self, **options: Option) -> Document:
        return self.ask("heaps", **options)

    def info(self, **options: Option) -> Document:
        return self.ask("info", **options)

    def leaks(self, **options: Option) -> Document:
        return self.ask("leaks", **options)

    def chunk(self, address: Union[str, int], **options: Option) -> Document:
        return self.ask("chunk", address, **options)

    def owner(self, address: Union[str, int], **options: Option) -> Document:
        return self.ask("owner", address, **options)

    def params(self, **options: Option) -> Document:
        return self.ask("params", **options)

    def pins(self, **options: Option) -> Document:
        return self.ask("pins", **options)

    def refs(self, address: Union[str, int], **options: Option) -> Document:
        return self.ask("refs", address, **options)

    def report(self, **options: Option) -> Document:
        return self.ask("report", **options)

    def stats(self, **options: Option) -> Document:
        return self.ask("stats", **options)

    def threads(self, **options: Option) -> Document:
        return self.ask("threads", **options)

    def chunks(self, **options: Option) -> Document:
        return self.ask("chunks", **options)

    def map(self, **options: Option) -> Document:
        return self.ask("map", **options)

    def mappings(self, **options: Option) -> Document:
        return self.ask("mappings", **options)

    def mmapped(self, **options: Option) -> Document:
        return self.ask("mmapped", **options)

    def version(self, **options: Option) -> Document:
        return self.ask("version", **options)


def _typed(options: Mapping[str, Option]) -> Iterator[str]:
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif value is not None and value is not False:
            yield f"{option}={value}"
