"""Runs inside LLDB: does the steps that ARENASCOPE_STEPS lists, and writes what came of each as a line of JSON.

A step is {"do": COMMAND}, {"complete": LINE} or {"python": STATEMENTS}, of which the latter set `value`; they may use
`debugger`, `target`, `process` and `lldb`.
"""

import json
import os
import time

import lldb


def do(debugger, line):
    result = lldb.SBCommandReturnObject()
    debugger.GetCommandInterpreter().HandleCommand(line, result)
    if result.Succeeded():
        return {"text": result.GetOutput() or ""}
    error = (result.GetError() or "").strip()
    # the first word is LLDB's own
    return {"text": result.GetOutput() or "", "error": error.partition("error: ")[2] or error}


def complete(debugger, line):
    """What LLDB offers; first in its list comes what it would add by itself."""
    found = lldb.SBStringList()
    debugger.GetCommandInterpreter().HandleCompletion(line, len(line), 0, -1, found)
    return {"value": [found.GetStringAtIndex(index) for index in range(1, found.GetSize())]}


def python(debugger, statements):
    names = {
        "debugger": debugger,
        "target": debugger.GetSelectedTarget(),
        "lldb": lldb,
        "process": debugger.GetSelectedTarget().GetProcess(),
        "value": None,
    }
    exec(statements, names)
    return {"value": names["value"]}


def __lldb_init_module(debugger, internal_dict):
    perform = {"do": do, "complete": complete, "python": python}
    with open(os.environ["ARENASCOPE_RESULTS"], "w") as results:
        for step in json.loads(os.environ["ARENASCOPE_STEPS"]):
            ((kind, words),) = step.items()
            start = time.monotonic()
            result = perform[kind](debugger, words)
            result["seconds"] = time.monotonic() - start
            results.write(json.dumps(result) + "\n")
            results.flush()
