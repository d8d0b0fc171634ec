"""Rounds of `heap trim --apply` while a handler stands on malloc, interrupted at one instruction after another.

Shared by interrupt_gdb.py and interrupt_lldb.py, which run inside the debuggers. What came of the rounds is printed as
one line of JSON. ARENASCOPE_ROUNDS says how many instructions, ARENASCOPE_SEED which.
"""

import json
import os
import random
import sys

FUNCTIONS = (
    "_int_malloc",
    "_int_free",
    "_int_free_chunk",
    "_int_free_merge_chunk",
    "malloc",
    "free",
    "malloc_consolidate",
    "unlink_chunk",
    "sysmalloc",
    "__malloc_trim",
    "systrim",
)
APPLY = "heap trim --apply -y --json"


def work_of(name):
    """The command to the subject that comes by in this function."""
    return "trim" if "trim" in name else "tick"


def tell(pid, line):
    with open(f"/proc/{pid}/fd/0", "w") as pipe:
        pipe.write(f"{line}\n")


def rounds(door, seconds):
    """`door` lends `places()`, `stand(address, work)`, `park()`, `let_go()`, `apply()` and `finish()`.

    A handler that stays is not waited for as long as a user would: `seconds`.
    """
    sys.modules["arenascope.commands.trim"].STEP_SECONDS = (seconds,)
    places = list(door.places())
    random.Random(int(os.environ["ARENASCOPE_SEED"])).shuffle(places)
    wanted, counts, tried = int(os.environ["ARENASCOPE_ROUNDS"]), {}, 0
    for turn, (address, work) in enumerate(places):
        if sum(counts.values()) >= wanted:
            break
        tried += 1
        # this work may not come by there
        if door.stand(address, work):
            outcome = interrupt(door, leaves=turn % 2)
            counts[outcome] = counts.get(outcome, 0) + 1
    print(json.dumps({"counts": counts, "tried": tried, "of": len(places)}))


def interrupt(door, leaves):
    """What became of one round: in every second one the handler ends as soon as it runs."""
    door.park()
    if leaves:
        door.let_go()
    error = door.apply()
    if error is None:
        outcome = "ran out" if leaves else "called on top of malloc"
    else:
        outcome = "refused" if " inside malloc" in error else error
    if not leaves or error is not None:
        door.let_go()
    door.finish()
    return outcome
