"""Runs inside GDB or LLDB with arenascope loaded, or by itself for the shell: what debug information names goes to
names.json in FOLDER, by the address that malloc returned, and whether that is certain. SUBJECT: the shell's pid or
core. RULES: what GDB names by these, also where something else is shown."""

import contextlib
import io
import json
import os
import sys
from pathlib import Path

from arenascope.blocks.declared.named_blocks import HOW
from arenascope.blocks.name_all_blocks import live_kinds
from arenascope.session.session import Session, UsersRules

FOLDER = Path(globals()["FOLDER"])
SUBJECT = globals().get("SUBJECT")


def target_in_gdb():
    commands = sys.modules["arenascope_gdb"]
    return commands.GdbDoor("heap", os.path.dirname(commands.__file__)).target()


def target_in_lldb():
    import lldb

    commands = sys.modules["arenascope_lldb"]
    debugger = globals()["debugger"]
    context = lldb.SBExecutionContext(debugger.GetSelectedTarget())
    return commands.LldbDoor("heap", os.path.dirname(commands.__file__), debugger, context, None).target()


def seen_by_shell():
    """What `types` sees, which copies a process first."""
    from arenascope.blocks import type_figures
    from arenascope.cli.main import main

    types_of, seen = type_figures.types_of, []
    type_figures.types_of = lambda *given, **named: seen.append(types_of(*given, **named)) or seen[-1]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["types", SUBJECT, "--declared"]) == 0
    return seen[0].live


def seen_by_debugger():
    target = target_in_gdb() if "arenascope_gdb" in sys.modules else target_in_lldb()
    return live_kinds(Session(target))


def named_by_rules():
    """Also where something else is shown."""
    session = Session(target_in_gdb())
    session.rules = UsersRules(globals()["RULES"])
    live_kinds(session)
    found = session.block_results.named
    for block, start in enumerate(found.blocks.starts):
        name = found.name_of(block)
        if name is not None:
            yield start, name.text, found.is_certain(block)


def named_in(live):
    for number, kind in live.typed():
        if live.kinds[kind].how.startswith(HOW):
            yield live.blocks.starts[number], live.kinds[kind].name, live.kinds[kind].certain


def main():
    if "RULES" in globals():
        found = named_by_rules()
    else:
        found = named_in(seen_by_shell() if SUBJECT is not None else seen_by_debugger())
    (FOLDER / "names.json").write_text(json.dumps({start: [name, certain] for start, name, certain in found}))


main()
