"""A live process looked at apart: copied as `save` copies it, let go, and read from the copy.

What follows pointers reads all of a process, some of it more than once: it is held only for being copied. Under a
debugger, which holds it anyway, and of a core nothing is copied.
"""

from __future__ import annotations

import os
from typing import Optional, Sequence

from .command import Context
from .errors import RedactedError, TargetError
from .graph.blocks import live_blocks
from .graph.edges import library
from .graph.refs import Search
from .graph.roots import find_roots
from .model import Statement
from .records import NamedTuple
from .render.progress import Progress
from .session import Session
from .sources.core.image import CoreImage
from .sources.elf.naming import local_file
from .sources.live.process import ProcessImage
from .sources.live.saving import save_process
from .sources.shell_target import ShellTarget
from .target import Region
from .whole_file import partial_name

SLOW, SPEED = 256 << 20, 20 << 20
"""From so many bytes on it is said that numpy would help, by so many that are followed in a second without."""
FOLDERS = ("/var/tmp", "/tmp")


class Looked(NamedTuple):
    """What is looked through, and what of the process could not be copied."""

    search: Search
    lost: int

    @property
    def problems(self) -> list[Statement]:
        """What was not looked through."""
        lost = self.lost + self.search.words.lost
        return [Statement("not-searched", {"bytes": lost})] if lost else []

    @property
    def session(self) -> Session:
        return self.search.session


def looked(context: Context) -> Looked:
    """From here on a live process of the shell's runs on."""
    target = context.target
    image = target.image
    process = image if isinstance(image, ProcessImage) else None
    lost = 0
    if process is not None and isinstance(target, ShellTarget):
        copy, lost = _copied(context, target, process)
        seen = ShellTarget(copy, *target.symbols_from)
        context.opened = Session(seen, context.options.libc, Progress, context.door.processes)
    session = context.session
    if session.target.image.redacted:
        # zeros that lead nowhere would pass for an answer
        raise RedactedError("what points to them")
    blocks = live_blocks(session)
    search = Search(session, blocks, find_roots(session, blocks))
    if search.bytes >= SLOW and library(search.bytes) is None:
        context.door.notice(f"note: without numpy this takes {search.bytes / SPEED:,.0f} s and more\n")
    return Looked(search, lost)


class _Copy(CoreImage):
    """A process as it was; its files are the process's own."""

    def __init__(self, path: str, process: ProcessImage) -> None:
        super().__init__(path)
        self._process = process

    def open_file(self, region: Region, likely: Sequence[str] = ()) -> Optional[str]:
        try:
            return self._process.open_file(region, likely)
        except TargetError:
            return local_file(region, likely)  # it has ended meanwhile


def _copied(context: Context, target: ShellTarget, process: ProcessImage) -> tuple[_Copy, int]:
    """The copy has no name as soon as it is whole."""
    folders = (os.environ.get("TMPDIR", ""), *FOLDERS)
    folder = next((each for each in folders if each and os.access(each, os.W_OK)), ".")
    path = partial_name(os.path.join(folder, ""))
    saved = save_process(process, path, target.register_sets(), context.door.release, lasting=False)
    try:
        return _Copy(path, process), saved.lost
    finally:
        os.unlink(path)
