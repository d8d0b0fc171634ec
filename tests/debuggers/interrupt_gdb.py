"""Runs inside GDB: `heap trim --apply` while a handler stands on malloc, interrupted at one instruction after another.

What came of the rounds is printed as one line of JSON. ARENASCOPE_ROUNDS says how many instructions, ARENASCOPE_SEED
which.
"""

import json
import os
import random
import sys

import gdb

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


def places():
    architecture = gdb.selected_frame().architecture()
    for name in FUNCTIONS:
        try:
            start = int(gdb.parse_and_eval(f"(long) &{name}"))
        except gdb.error:
            continue  # this release has none of that name, or only copies within others
        block = gdb.block_for_pc(start)
        while block.function is None:
            block = block.superblock
        yield from ((each["addr"], work_of(name)) for each in architecture.disassemble(start, block.end - 1))


def stand(address, work):
    """Whether it came by at this address."""
    gdb.execute(f"tbreak *{address:#x}", to_string=True)
    gdb.execute("break reply", to_string=True)
    tell(gdb.selected_inferior().pid, work)
    reached = go() == address
    gdb.execute("delete", to_string=True)
    # and not where a signal stopped it
    assert reached or gdb.newest_frame().name() == "reply", gdb.newest_frame().name()
    return reached


def go():
    gdb.execute("continue", to_string=True)
    return gdb.newest_frame().pc()


def interrupt(leaves):
    """What became of one round: in every second one the handler ends as soon as it runs."""
    gdb.execute("tbreak park", to_string=True)
    gdb.execute("signal SIGUSR1", to_string=True)
    if leaves:
        gdb.execute("set var go_on = 1", to_string=True)
    try:
        gdb.execute(APPLY, to_string=True)
        outcome = "ran out" if leaves else "called on top of malloc"
    except gdb.error as error:
        outcome = "refused" if " inside malloc" in str(error) else str(error)
    if outcome != "ran out":
        gdb.execute("set var go_on = 1", to_string=True)
    # to the end of the work: a parked handler replies, too
    gdb.execute("break reply", to_string=True)
    go()
    while gdb.newest_frame().older().name() == "park":
        go()
    gdb.execute("delete", to_string=True)
    return outcome


# a handler that stays is not waited for as long as a user would
sys.modules["arenascope.commands.trim"].STEP_SECONDS = (0.02,)
every = list(places())
random.Random(int(os.environ["ARENASCOPE_SEED"])).shuffle(every)
wanted, counts, tried = int(os.environ["ARENASCOPE_ROUNDS"]), {}, 0
for turn, (address, work) in enumerate(every):
    if sum(counts.values()) >= wanted:
        break
    tried += 1
    # this work may not come by there
    if stand(address, work):
        outcome = interrupt(leaves=turn % 2)
        counts[outcome] = counts.get(outcome, 0) + 1
print(json.dumps({"counts": counts, "tried": tried, "of": len(every)}))
