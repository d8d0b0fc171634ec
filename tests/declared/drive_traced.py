"""Runs inside GDB with arenascope loaded: what debug information, and RULES, tell of each block goes to names.json in
FOLDER, by the address that malloc returned, and whether that is certain: also where something else is shown."""

import json
import os
import sys
from pathlib import Path

FOLDER = Path(globals()["FOLDER"])


def main():
    from arenascope.blocks.name_all_blocks import live_kinds
    from arenascope.session.session import Session, UsersRules

    commands = sys.modules["arenascope_gdb"]
    session = Session(commands.GdbDoor("heap", os.path.dirname(commands.__file__)).target())
    session.rules = UsersRules(globals()["RULES"])
    live_kinds(session)
    found = session.block_results.named
    names = {}
    for block, start in enumerate(found.blocks.starts):
        name = found.name_of(block)
        if name is not None:
            names[start] = [name.text, found.is_certain(block)]
    (FOLDER / "names.json").write_text(json.dumps(names))


main()
