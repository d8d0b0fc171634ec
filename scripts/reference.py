#!/usr/bin/env python3
"""Writes what is made from the code.

reference.py: docs/commands.md, the table of keys in docs/scripts.md, and docs/schema
reference.py --check: compares these with the code, and writes nothing
reference.py --for-package FOLDER: the man page, and the completion for those shells that the installed shtab knows
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "common"))

from arenascope import __version__  # noqa: E402
from arenascope.cli.json_schemas import as_text, whole_schema  # noqa: E402
from arenascope.cli.main import IN_THE_SHELL, INSTEAD, LOOPS, CommandTree, branch_names  # noqa: E402
from arenascope.commands.framework.arguments import Argument, ArgumentGroup, Outline  # noqa: E402
from arenascope.commands.framework.command import COMMON  # noqa: E402
from arenascope.commands.framework.find_command import all_commands, find_command  # noqa: E402
from arenascope.present.glossary import IN_JSON, listed  # noqa: E402

HEAD = """# Commands

Made from the command table by `make docs`; do not edit. In GDB and LLDB a command is typed `heap NAME` (or `arenascope
NAME`), in a shell `arenascope NAME PID|CORE`; `arenascope PID|CORE` is the report. Which of them to ask first: [which
command](which-command.md); what the words mean: [words](../common/arenascope/present/glossary.md). Every command takes
these besides its own:

"""


def rows(arguments: Sequence[Argument]) -> str:
    lines = ["| option | meaning |", "| --- | --- |"]
    lines += [f"| `{escaped(each.spelt)}` | {escaped(each.help)} |" for each in arguments]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("%%", "%")


TREE = CommandTree(branch_names())
NAMES = [*(each.name for each in all_commands()), *LOOPS]


def outline(name: str) -> Outline:
    return TREE.branches[name].outline


def own(name: str) -> list[Argument]:
    """What the command takes beside what all of them take."""
    return [each for each in outline(name).groups[0].arguments if each not in COMMON]


def section(name: str) -> str:
    summary, description, example = outline(name)[:3]
    text = f"## {name}\n\n{summary}\n"
    if description:
        text += f"\n{description}\n"
    if own(name):
        text += f"\n{rows(own(name))}"
    typed, lines = ("$ arenascope ", example) if name in LOOPS else ("(gdb) heap ", find_command(name).example)
    return text + "\n```\n" + "".join(f"{typed}{line}\n" for line in lines.splitlines()) + "```\n"


def options(group: ArgumentGroup) -> str:
    return f"{group.title[0].upper()}{group.title[1:]}:\n\n{rows(group.arguments)}\n"


def reference() -> str:
    index = "\n".join(f"- [`{name}`](#{name}): {outline(name).summary}" for name in NAMES)
    head = HEAD + rows(COMMON) + "\n" + options(IN_THE_SHELL) + options(INSTEAD)
    return head + index + "\n\n" + "\n".join(map(section, NAMES))


def roff(text: str) -> str:
    text = text.replace("%%", "%").replace("\\", "\\e").replace("-", "\\-")
    # troff itself takes no UTF-8
    text = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", text)
    return re.sub(r"^(['.])", r"\\&\1", text, flags=re.MULTILINE)


def described(arguments: Sequence[Argument]) -> list[str]:
    return [line for each in arguments for line in (".TP", f".B {roff(each.spelt)}", roff(each.help))]


def man_page() -> str:
    lines = [
        f'.TH ARENASCOPE 1 "" "arenascope {__version__}"',
        ".SH NAME",
        "arenascope \\- where a process's memory went, by glibc malloc's own structures",
        ".SH SYNOPSIS",
        ".B arenascope",
        "[\\fICOMMAND\\fR] \\fIPID\\fR|\\fICORE\\fR",
        "[\\fIoptions\\fR]",
        ".SH DESCRIPTION",
        roff(
            "Walks glibc malloc's arenas, heaps, bins and thread caches in a live process or a core dump, "
            "without a debugger. Without a command it is the report. A process is named by its pid, or by its name "
            "where only one has it. The same commands are there in GDB and LLDB, as heap COMMAND."
        ),
        ".SH COMMANDS",
    ]
    for name in NAMES:
        summary, description = outline(name)[:2]
        lines += [".SS " + roff(name), roff(summary)]
        if description:
            lines += [".PP", roff(description)]
        lines += described(own(name))
    for title, arguments in (("every command", COMMON), ("the shell", IN_THE_SHELL.arguments)):
        lines += [f".SH OPTIONS OF {title.upper()}", *described(arguments)]
    lines += [f".SH {INSTEAD.title.upper()}", *described(INSTEAD.arguments)]
    lines += [
        ".SH EXIT STATUS",
        roff(
            "0: done. 1: check found breaches, leaks found something lost, or trim --apply had nothing to do. 2: bad "
            "usage, or a target that cannot be read. 3: a fault of arenascope's own. 130: stopped at Ctrl-C."
        ),
    ]
    return "\n".join(lines) + "\n"


BEGIN, END = "<!-- keys -->\n", "<!-- /keys -->\n"


def scripts_page() -> str:
    """With the table of keys in place of the last one."""
    before, _, rest = (ROOT / "docs" / "scripts.md").read_text().partition(BEGIN)
    keys = "".join(f"| {word} | {listed(keys)} |\n" for word, keys in IN_JSON.items())
    return f"{before}{BEGIN}| on the screens | in JSON |\n| --- | --- |\n{keys}{END}{rest.partition(END)[2]}"


PAGES = {
    "docs/scripts.md": scripts_page,
    "docs/commands.md": reference,
    "docs/schema/arenascope.json": lambda: as_text(whole_schema()),
}


def write_for_package(folder: Path) -> Mapping[str, Path]:
    """Writes what git does not keep, and says where in the package each file of the completion belongs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "arenascope.1").write_text(man_page())
    try:
        from completion import completion, known_shells
    except ImportError:
        # a zipapp can be packed without shtab
        return {}
    paths = {shell: folder / f"arenascope.{shell}" for shell in known_shells()}
    for shell, path in paths.items():
        path.write_text(completion(shell))
    return {f"arenascope/cli/completion/{path.name}": path for path in paths.values()}


def main() -> int:
    if sys.argv[1:2] == ["--for-package"]:
        write_for_package(Path(sys.argv[2]))
        return 0
    stale = []
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
