"""Runs inside GDB, with arenascope loaded: what its TypeSource answers goes to answers.json in FOLDER."""

import os
import sys
from pathlib import Path

FOLDER = Path(globals()["FOLDER"])
sys.path.insert(0, str(Path(__file__).resolve().parent))
from type_answers import write_answers  # noqa: E402

commands = sys.modules["arenascope_gdb"]
write_answers(commands.GdbDoor("heap", os.path.dirname(commands.__file__)).target().types, FOLDER)
