"""heap save: this moment as a core that keeps what cores lose."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Callable, Optional

from ..base.errors import UsageError
from ..base.model import Statement
from ..base.whole_file import nameless_file
from ..present.json_documents.process_records import SaveDocument
from ..present.shared_text.progress_bar import Progress
from ..present.shared_text.text import next_lines
from ..session.session import Session
from ..sources.core.core_image import CoreImage
from ..sources.core.core_in_memory import NoRoomInMemory
from ..sources.core.save_image import save_core
from ..sources.live.process import ProcessImage
from ..sources.live.save_process import ProcessCopy, copy_process
from ..sources.shell_target import ShellTarget
from ..sources.target import SavedCore, Target
from .framework.command import Answer, Context, always, argument, command
from .framework.live_copy import expect_save
from .steps.redaction import kept


def save(target: Target, path: str, release: Callable[[], float], redact: bool) -> Optional[SavedCore]:
    """Saves the image. `release` is called once all of a process was read. None if the image is not on this machine."""
    if not redact:
        return target.image.save(path, target.register_sets(), release)
    if isinstance(target.image, CoreImage):
        return _redact(target, target.image, path)
    # redacting walks over every chunk: copy to an unnamed file first, and let the process go
    image = target.image
    if isinstance(image, ProcessImage) and image.room is not None:
        room, image.room = image.room, None
        with suppress(NoRoomInMemory):
            core, saved = copy_process(image, target, room, registers=target.register_sets(), release=release)
            return _redact_copy(target, core, saved, path)
    with nameless_file(os.path.dirname(path) or ".") as file:
        written = image.save(file, target.register_sets(), release)
        if written is None:
            return None
        return _redact_copy(target, ProcessCopy(f"/proc/self/fd/{file}", target, written.lost), written, path)


def _redact_copy(target: Target, core: CoreImage, saved: SavedCore, path: str) -> SavedCore:
    return _redact(target, core, path)._replace(held=saved.held, lost=saved.lost)


def _redact(target: Target, core: CoreImage, path: str) -> SavedCore:
    """Writes the redacted core. `core` is the unnamed copy of `target`, read with the same symbols."""
    symbols = target.symbols_from if isinstance(target, ShellTarget) else ()
    with ShellTarget(core, *symbols) as shown:
        words = kept(Session(shown, meter=Progress), core.random_bytes())
        return save_core(core, path, core.residency(), core.mapping_use(), kept=words)


@command(
    "changes over time",
    "Save this moment as a core that also has what other cores lack: residency, names, what was locked.",
    "save app.core",
    "The process stands still only while its memory is copied: what was never touched is not written. The file is an "
    "ELF core: GDB and LLDB open it with threads and registers, and every command here answers from it what it would "
    "have answered of the process. --redact leaves zeros in place of blocks, stacks, variables, arguments and "
    "environment: figures stay, data does not. Names of files and threads stay. It takes room for the whole file, "
    "which has no name meanwhile.",
    arguments=(
        argument("file", metavar="FILE", help="where to write it"),
        argument("--redact", action="store_true", help="keep only malloc's own data; write zeros for the program's"),
    ),
    whole=always,
)
def save_command(context: Context) -> Answer:
    path = context.options.file
    expect_save(context, path)
    saved = save(context.target, path, context.door.release, context.options.redact)
    if saved is None:
        raise UsageError("only what lies on this machine can be saved", "use the debugger's own gcore, or save there")
    found = SaveDocument(
        file=path, bytes_written=saved.written, resident_bytes=saved.resident, redacted=context.options.redact
    )
    problems = [Statement("memory-lost", {"bytes": saved.lost})] if saved.lost else []
    return Answer(found, _lines(context, saved), problems)


def _lines(context: Context, saved: SavedCore) -> list[str]:
    style = context.style
    path = context.options.file
    speed = f", {style.size(round(saved.resident / saved.held))} a second" if saved.held else ""
    first = f"{path}: {style.size(saved.resident)} of memory in {style.size(saved.written)}{speed}"
    return [style.bold(first), *next_lines(style, f"arenascope report {path}", f"gdb PROGRAM {path}")]
