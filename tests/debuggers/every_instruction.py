"""Runs inside GDB: `heap trim --apply` while a handler stands on malloc, interrupted at one instruction after another.

Prints what came of it as one line of JSON. ARENASCOPE_ROUNDS says how many instructions, ARENASCOPE_SEED which.
"""

import json
import os
import random
import sys

import gdb

FUNCTIONS = ("_int_malloc", "_int_free", "malloc", "free", "malloc_consolidate", "unlink_chunk", "sysmalloc",
             "__malloc_trim", "systrim")  # fmt: skip
APPLY = "heap trim --apply -y --json"


def instructions():
    architecture = gdb.selected_frame().architecture()
    for name in FUNCTIONS:
        start = int(gdb.parse_and_eval(f"(long) &{name}"))
        block = gdb.block_for_pc(start)
        while block.function is None:
            block = block.superblock
        work = "trim" if "trim" in name else "tick"
        yield from ((each["addr"], work) for each in architecture.disassemble(start, block.end - 1))


def tell(lines):
    with open(f"/proc/{gdb.selected_inferior().pid}/fd/0", "w") as pipe:
        pipe.write(lines)


def go():
    gdb.execute("continue", to_string=True)
    return gdb.newest_frame().pc()


def go_to_reply():
    """To the end of the work: a parked handler replies, too."""
    gdb.execute("break reply", to_string=True)
    go()
    while gdb.newest_frame().older().name() == "park":
        go()
    gdb.execute("delete", to_string=True)


def interrupt(address, work, leaves):
    """What became of one round; None where this work does not come by there."""
    gdb.execute(f"tbreak *{address:#x}", to_string=True)
    gdb.execute("break reply", to_string=True)
    tell(f"{work}\n")
    reached = go() == address
    gdb.execute("delete", to_string=True)
    if not reached:
        return None
    gdb.execute("tbreak park", to_string=True)
    gdb.execute("signal SIGUSR1", to_string=True)
    if leaves:
        gdb.execute("set var go_on = 1", to_string=True)
    try:
        gdb.execute(APPLY, to_string=True)
        outcome = "ran out"
    except gdb.error as error:
        outcome = "refused" if " inside malloc" in str(error) else str(error)
    if not leaves or outcome == "refused":
        gdb.execute("set var go_on = 1", to_string=True)
    go_to_reply()
    return outcome


def main():
    # a handler that stays is not waited for as long as a user would
    sys.modules["arenascope.apply"].STEP_SECONDS = (0.02,)
    places = list(instructions())
    random.Random(int(os.environ["ARENASCOPE_SEED"])).shuffle(places)
    wanted, counts, tried = int(os.environ["ARENASCOPE_ROUNDS"]), {}, 0
    for turn, (address, work) in enumerate(places):
        if sum(counts.values()) >= wanted:
            break
        tried += 1
        outcome = interrupt(address, work, turn % 2)
        if outcome is not None:
            counts[outcome] = counts.get(outcome, 0) + 1
    gdb.execute("delete", to_string=True)
    print(json.dumps({"counts": counts, "tried": tried, "of": len(places)}))


main()
