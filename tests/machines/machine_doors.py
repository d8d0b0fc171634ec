"""The doors to other machines' heaps: GDB for all machines, LLDB with the machine's libraries, and the shell."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Optional, Sequence

from doors import LOAD, Gdb
from lldb_door import LLDBS, Lldb
from looks import Core, Outcome, opened, stripped
from machine_table import GDB_NAME, Machine
from shell_door import SHELL

NO_SYMBOLS = "set debug-file-directory /nonexistent"


class GdbMultiarch(Gdb):
    """GDB built for all machines."""

    name = GDB_NAME

    def available(self) -> Optional[str]:
        return None if shutil.which(self.name) else f"{self.name} is not installed"


MULTIARCH = GdbMultiarch()


def settings(machine: Machine, symbols: bool) -> list[str]:
    debug = f"set debug-file-directory {machine.debug}" if symbols else NO_SYMBOLS
    # libthread_db would be loaded into this GDB: another machine's cannot, and this machine's is not the guest's
    return ["-iex", f"set sysroot {machine.root}", "-iex", debug, "-iex", "set auto-load libthread-db off"]


def by_gdb(machine: Machine, core: Core, commands: Sequence[str], symbols: bool) -> list[Outcome]:
    program = core.program if symbols else without_symbols(machine, core.program)
    return MULTIARCH.drive([*settings(machine, symbols), str(program), str(core.path)], heap(commands))


def by_lldb(door: Lldb, machine: Machine, core: Core, commands: Sequence[str], symbols: bool) -> list[Outcome]:
    program = core.program if symbols else without_symbols(machine, core.program)
    find = ["-O", f"settings append target.debug-file-search-paths {machine.debug}"] if symbols else []
    root = ["-O", f"platform select --sysroot {machine.root} remote-linux"]
    return door.drive([*find, *root, "-c", str(core.path), str(program)], heap(commands))


def through(door: str, machine: Machine, core: Core, commands: Sequence[str], symbols: bool) -> list[Outcome]:
    """The outcomes of the commands, by a door's name."""
    chosen = opened({MULTIARCH.name: MULTIARCH, SHELL.name: SHELL, **{lldb.name: lldb for lldb in LLDBS}}[door])
    if chosen is SHELL:
        return SHELL.run(core, commands, symbols)
    if chosen is MULTIARCH:
        return by_gdb(machine, core, commands, symbols)
    return by_lldb(chosen, machine, core, commands, symbols)


def over_stub(
    machine: Machine, program: Path, socket: str, commands: Sequence[str]
) -> tuple[list[Outcome], list[Outcome]]:
    """What the commands say of the guest when its truth has been written, first with symbols, then without.

    QEMU lets one debugger in, once: so the symbols are dropped on the way. Afterwards the guest is let go.
    """
    debugger = opened(MULTIARCH)
    until = steps("target remote " + socket, "tbreak reply", "continue")
    forget = steps(
        NO_SYMBOLS,
        "nosharedlibrary",
        "symbol-file",
        f"symbol-file {without_symbols(machine, program)}",
        "sharedlibrary",
    )
    asked = heap(commands)
    found = debugger.drive(
        [*settings(machine, True), str(program)], [*until, *asked, *forget, *asked, *steps("detach")], load=LOAD
    )
    for outcome in (*found[: len(until)], *found[len(until) + len(asked) : -len(asked) - 1], found[-1]):
        assert outcome.error is None, outcome
    first = found[len(until) : len(until) + len(asked)]
    return first, found[-len(asked) - 1 : -1]


def steps(*commands: str) -> list[dict[str, Any]]:
    return [{"do": command} for command in commands]


def heap(commands: Sequence[str]) -> list[dict[str, Any]]:
    return steps(*(f"heap {command}" for command in commands))


def without_symbols(machine: Machine, program: Path) -> Path:
    return stripped(program, f"{machine.triple}-strip")
