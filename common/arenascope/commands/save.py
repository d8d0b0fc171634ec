"""heap save: this moment as a core that keeps what cores lose."""

from __future__ import annotations

from ..base.errors import UsageError
from ..base.model import Statement
from ..present.json_documents.moment_records import SaveDocument
from ..present.shared_text.text import next_lines
from ..sources.target import SavedCore
from .framework.command import Answer, Context, always, argument, command
from .steps.live_copy import expect_save
from .steps.save_core import save


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
    # all that it takes is loaded here, before a process is held, and not with a debugger's door

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
