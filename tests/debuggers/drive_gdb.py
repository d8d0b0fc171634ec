"""Runs inside GDB: does the steps that ARENASCOPE_STEPS lists, and writes what came of each as a line of JSON.

A step is {"do": COMMAND}, {"value": EXPRESSION} or {"each_thread": {NAME: EXPRESSION}}; the latter two are GDB's own
word, from debug information alone, against which arenascope is held.
"""

import json
import os
import time

import gdb


def as_data(value):
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        low, high = kind.range()
        return [as_data(value[index]) for index in range(low, high + 1)]
    if kind.code == gdb.TYPE_CODE_STRUCT:
        return {field.name: as_data(value[field]) for field in kind.fields()}
    return int(value)


def value_of(expression):
    try:
        return as_data(gdb.parse_and_eval(expression))
    except gdb.error:
        return None


def each_thread(expressions):
    found = {}
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        # a core of a process that never had a second thread knows it by its process id alone
        tid = thread.ptid[1] or thread.ptid[0]
        found[tid] = {name: value_of(expression) for name, expression in expressions.items()}
    return found


def perform(step):
    if "value" in step:
        return {"value": value_of(step["value"])}
    if "each_thread" in step:
        return {"value": each_thread(step["each_thread"])}
    try:
        return {"text": gdb.execute(step["do"], to_string=True)}
    except gdb.error as error:
        return {"text": "", "error": str(error)}


def main():
    with open(os.environ["ARENASCOPE_RESULTS"], "w") as results:
        for step in json.loads(os.environ["ARENASCOPE_STEPS"]):
            start = time.monotonic()
            result = perform(step)
            result["seconds"] = time.monotonic() - start
            results.write(json.dumps(result) + "\n")
            results.flush()


main()
