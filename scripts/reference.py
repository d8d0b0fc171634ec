#!/usr/bin/env python3
"""Writes docs/commands.md and docs/arenascope.1 from the command table, and docs/schema/ from the descriptions of the
documents: `make docs`. With --check it only compares."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "common"))

from arenascope import __version__, cli  # noqa: E402
from arenascope.command import (  # noqa: E402
    COMMON,
    Argument,
    Command,
    all_commands,
)
from arenascope.documents.schemas import schemas  # noqa: E402

HEAD = """# Commands

Made from the command table by `make docs`; do not edit. In GDB and LLDB a command is typed `heap NAME` (or `arenascope
NAME`), in a shell `arenascope NAME PID|CORE`. Every command takes these besides its own:

"""


def spelt(argument: Argument) -> str:
    """An argument as it is typed."""
    names = ", ".join(argument.names)
    if not names.startswith("-"):
        return str(argument.options.get("metavar") or names.upper())
    if argument.options.get("action") in ("store_true", "store_false"):
        return names
    what = argument.options.get("metavar") or argument.names[-1].lstrip("-").upper()
    return f"{names} {what}"


def rows(arguments) -> str:
    lines = ["| option | meaning |", "| --- | --- |"]
    lines += [f"| `{spelt(each)}` | {escaped(each.help)} |" for each in arguments]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("%%", "%")


def section(command: Command) -> str:
    text = f"## {command.name}\n\n{command.summary}\n"
    if command.description:
        text += f"\n{command.description}\n"
    if command.arguments:
        text += f"\n{rows(command.arguments)}"
    return f"{text}\n```\n(gdb) heap {command.example}\n```\n"


def reference() -> str:
    index = "\n".join(f"- [`{each.name}`](#{each.name}): {each.summary}" for each in all_commands())
    return HEAD + rows(COMMON) + "\n" + index + "\n\n" + "\n".join(map(section, all_commands()))


def roff(text: str) -> str:
    text = text.replace("%%", "%").replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(['.])", r"\\&\1", text, flags=re.MULTILINE)


def man_page() -> str:
    lines = [
        f'.TH ARENASCOPE 1 "" "arenascope {__version__}"',
        ".SH NAME",
        "arenascope \\- where a process's memory went, by glibc malloc's own structures",
        ".SH SYNOPSIS",
        ".B arenascope",
        ".I COMMAND PID\\fR|\\fICORE",
        "[\\fIoptions\\fR]",
        ".SH DESCRIPTION",
        roff(
            "Walks glibc malloc's arenas, heaps, bins and thread caches in a live process or a core dump, "
            "without a debugger. The same commands are there in GDB and LLDB, as heap COMMAND."
        ),
        ".SH COMMANDS",
    ]
    for command in all_commands():
        lines += [".SS " + roff(command.name), roff(command.summary)]
        if command.description:
            lines += [".PP", roff(command.description)]
        for each in command.arguments:
            lines += [".TP", f".B {roff(spelt(each))}", roff(each.help)]
    lines += [".SH OPTIONS OF EVERY COMMAND"]
    for each in COMMON:
        lines += [".TP", f".B {roff(spelt(each))}", roff(each.help)]
    shell = [line[2:] for line in cli.SHELL_OPTIONS.splitlines() if line.startswith("  ")]
    lines += [".SH OPTIONS OF THE SHELL", ".nf", *map(roff, shell), ".fi"]
    lines += [
        ".SH EXIT STATUS",
        roff(
            "0: done. 1: check found breaches, or trim --apply had nothing to do. 2: bad usage, or a target "
            "that cannot be read. 130: stopped at Ctrl-C."
        ),
    ]
    return "\n".join(lines) + "\n"


def as_json(schema: dict) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


PAGES = {
    "docs/commands.md": reference,
    "docs/arenascope.1": man_page,
    **{f"docs/schema/{name}.json": partial(as_json, schema) for name, schema in schemas().items()},
}


def main() -> int:
    expected = {ROOT / name for name in PAGES}
    stale = [str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "schema").glob("*.json") if path not in expected]
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if (path.read_text() if path.exists() else "") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(f"wrote {name}")
    if "--check" in sys.argv and stale:
        print(f"{', '.join(stale)}: not what the code says; make docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
