"""Runs inside GDB, with arenascope loaded: what debug information names goes to names.json in FOLDER, by the address
that malloc returned, and whether that is certain. With CORE, a core is written there first."""

import json
import os
import sys
from pathlib import Path

import gdb

FOLDER = Path(globals()["FOLDER"])
CORE = globals().get("CORE")


def main():
    from arenascope.blocks.declared.named_blocks import HOW
    from arenascope.blocks.types import live_kinds
    from arenascope.session.session import Session

    if CORE:
        gdb.execute(f"generate-core-file {CORE}", to_string=True)
    commands = sys.modules["arenascope_gdb"]
    session = Session(commands.GdbDoor("heap", os.path.dirname(commands.__file__)).target())
    live = live_kinds(session)
    header = session.layout.header
    names = {}
    for heap in live.heaps:
        for chunk, _, state, number in live.blocks(heap):
            if state == "used" and number >= 0 and live.kinds[number].how == HOW:
                names[chunk + header] = [live.kinds[number].name, live.kinds[number].certain]
    for block, number in live.mmapped:
        if live.kinds[number].how == HOW:
            names[block.chunk + header] = [live.kinds[number].name, live.kinds[number].certain]
    (FOLDER / "names.json").write_text(json.dumps(names))


main()
