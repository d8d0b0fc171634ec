"""Runs inside GDB, with arenascope loaded: what its TypeSource answers goes to answers.json in FOLDER."""

import json
import os
import sys
from pathlib import Path

import gdb

FOLDER = Path(globals()["FOLDER"])
sys.path.insert(0, str(Path(__file__).resolve().parent))
from type_answers import Answers  # noqa: E402


def selected():
    thread, frame = gdb.selected_thread(), gdb.selected_frame()
    return [thread.num, frame.level() if hasattr(frame, "level") else 0, frame.pc()]


def own_word(expression):
    try:
        return str(gdb.parse_and_eval(expression))
    except gdb.error as error:
        return str(error)


def interrupted_locals(types):
    """Ctrl-C while another thread is selected."""

    def interrupted(*_):
        raise KeyboardInterrupt

    types._variables._frames._locals_of = interrupted
    try:
        types.locals()
    except KeyboardInterrupt:
        return selected()


def main():
    task = json.loads((FOLDER / "task.json").read_text())
    commands = sys.modules["arenascope_gdb"]
    target = commands.GdbDoor("heap", os.path.dirname(commands.__file__)).target()
    last = gdb.selected_inferior().threads()[-1]
    last.switch()
    gdb.selected_frame().older().select()
    before = selected()
    asked = Answers(target.types)
    calls = []
    gdb.events.inferior_call.connect(calls.append)
    answers = asked.all(task["addresses"], task["names"])
    if task["structs"]:
        answers["structs"] = asked.structs()
    words = {each: own_word(f"&{each}") for each in ("per_thread", "library_own")}
    document = {**answers, "own_words": words, "selected_before": before, "selected_after": selected()}
    document["calls"], document["may_call"] = len(calls), gdb.parameter("may-call-functions")
    document["selected_after_ctrl_c"] = interrupted_locals(target.types)
    (FOLDER / "answers.json").write_text(json.dumps(document))


main()
