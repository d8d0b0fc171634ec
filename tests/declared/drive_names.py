"""Runs inside GDB or LLDB with arenascope loaded, or by itself for the shell: what debug information names goes to
names.json in FOLDER, by the address that malloc returned, and whether that is certain. SUBJECT: the shell's pid or
core."""

import contextlib
import io
import json
import os
import sys
from pathlib import Path

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
    from arenascope.blocks import types_of_image
    from arenascope.cli.main import main

    types_of, seen = types_of_image.types_of, []
    types_of_image.types_of = lambda *given, **named: seen.append(types_of(*given, **named)) or seen[-1]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["types", SUBJECT, "--declared"]) == 0
    return seen[0].live


def seen_by_debugger(target):
    from arenascope.blocks.name_all_blocks import live_kinds
    from arenascope.session.session import Session

    return live_kinds(Session(target))


def main():
    if "arenascope_gdb" in sys.modules:
        live = seen_by_debugger(target_in_gdb())
    elif "arenascope_lldb" in sys.modules:
        live = seen_by_debugger(target_in_lldb())
    else:
        live = seen_by_shell()
    from arenascope.blocks.declared.named_blocks import HOW

    names = {}
    for number, kind in live.typed():
        if live.kinds[kind].how.startswith(HOW):
            names[live.blocks.starts[number]] = [live.kinds[kind].name, live.kinds[kind].certain]
    (FOLDER / "names.json").write_text(json.dumps(names))


main()
