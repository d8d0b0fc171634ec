"""Runs inside LLDB, with arenascope loaded: what its TypeSource answers goes to answers.json in FOLDER."""

import json
import os
import sys
from pathlib import Path

import lldb

FOLDER = Path(globals()["FOLDER"])
sys.path.insert(0, str(Path(__file__).resolve().parent))
from type_answers import Answers  # noqa: E402


def selected(process):
    thread = process.GetSelectedThread()
    frame = thread.GetSelectedFrame()
    return [thread.GetThreadID(), frame.GetFrameID(), frame.GetPC()]


def own_word(process, expression):
    options = lldb.SBExpressionOptions()
    options.SetAllowJIT(False)
    value = process.GetSelectedThread().GetFrameAtIndex(0).EvaluateExpression(expression, options)
    return value.GetError().GetCString() or value.GetValue()


def main(debugger):
    task = json.loads((FOLDER / "task.json").read_text())
    commands = sys.modules["arenascope_lldb"]
    folder, nothing = os.path.dirname(commands.__file__), lldb.SBExecutionContext()
    door = commands.LldbDoor("heap", folder, debugger, nothing, result=lldb.SBCommandReturnObject())
    process = debugger.GetSelectedTarget().GetProcess()
    last = process.GetThreadAtIndex(process.GetNumThreads() - 1)
    process.SetSelectedThread(last)
    last.SetSelectedFrame(1)
    before = selected(process)
    # what types are asked of has to be there
    target = door.target()
    asked = Answers(target.types)
    answers = asked.all(task["addresses"], task["names"])
    if task["structs"]:
        answers["structs"] = asked.structs()
    words = {each: own_word(process, f"&{each}") for each in ("per_thread", "library_own")}
    document = {**answers, "own_words": words, "selected_before": before, "selected_after": selected(process)}
    (FOLDER / "answers.json").write_text(json.dumps(document))


main(globals()["debugger"])
