"""Runs inside LLDB, with arenascope loaded: what its TypeSource answers goes to answers.json in FOLDER."""

import os
import sys
from pathlib import Path

import lldb

FOLDER = Path(globals()["FOLDER"])
sys.path.insert(0, str(Path(__file__).resolve().parent))
from type_answers import write_answers  # noqa: E402

commands = sys.modules["arenascope_lldb"]
folder, nothing = os.path.dirname(commands.__file__), lldb.SBExecutionContext()
door = commands.LldbDoor("heap", folder, globals()["debugger"], nothing, result=lldb.SBCommandReturnObject())
# what types are asked of has to be there
target = door.target()
write_answers(target.types, FOLDER)
