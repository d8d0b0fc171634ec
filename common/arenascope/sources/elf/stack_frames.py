"""The frames of a stack by unwind tables alone, for whoever has no debugger: where they lack a word, the list ends.

x86-64 and aarch64. What a signal handler interrupted is found in the frame that the kernel made for it (rt_sigframe).
"""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

from ...base.errors import MemoryReadError
from ..memory import Memory
from .unwind import CannotUnwind, Cursor, Row, Rule, UnwindTables


class Machine(NamedTuple):
    """What unwinding needs to know, in DWARF's numbers of registers."""

    stack: int
    from_signal: Mapping[int, int]
    """Where the kernel keeps each register for a handler's return, counted from that frame's stack pointer."""
    signal_counter: int
    address_bits: int
    """What lies above these is a signature (pointer authentication)."""


# ucontext: flags, link, stack (24 bytes), then on x86 the registers of struct sigcontext in its order; on ARM the
# siginfo comes first (128), and the mask's 128 bytes stand before fault_address, x0 to x30, sp, pc
_X86_ORDER = (8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7)
_ARM_REGISTERS = 128 + 168 + 8 + 8
MACHINES: Mapping[str, Machine] = {
    "x86_64": Machine(7, {number: 40 + 8 * at for at, number in enumerate(_X86_ORDER)}, 40 + 8 * 16, 64),
    "aarch64": Machine(31, {number: _ARM_REGISTERS + 8 * number for number in range(32)}, _ARM_REGISTERS + 256, 48),
}

CFA = -1


class Frame(NamedTuple):
    pc: int
    stack_pointer: int


class Unwinder:
    """The frames of threads of one process at one moment."""

    def __init__(self, memory: Memory, tables: UnwindTables, machine: str) -> None:
        self.memory, self.tables, self.machine = memory, tables, MACHINES[machine]

    def frames(self, registers: Mapping[int, int], pc: int, limit: int) -> Iterator[Frame]:
        """Innermost first. `registers` by DWARF's numbers."""
        exact, here = True, dict(registers)
        for _ in range(limit):
            stack = here[self.machine.stack]
            yield Frame(pc, stack)
            try:
                row = self.tables.find(pc if exact else pc - 1)
                if row is None:
                    return
                if row.entry.is_signal:
                    here, pc, exact = *self._interrupted(stack), True
                    continue
                here, pc = self._caller(row, here)
            except (CannotUnwind, MemoryReadError, LookupError):
                return
            exact = False
            if not pc or here[self.machine.stack] < stack:
                return  # a caller lies above

    def _interrupted(self, stack: int) -> tuple[dict[int, int], int]:
        registers = {number: self.memory.word(stack + at) for number, at in self.machine.from_signal.items()}
        return registers, self.memory.word(stack + self.machine.signal_counter)

    def _caller(self, row: Row, here: Mapping[int, int]) -> tuple[dict[int, int], int]:
        top = self.memory.top
        cfa = self._value(row.cfa, here, 0) if row.cfa.expression is not None else None
        if cfa is None:
            cfa = (here[row.cfa.register if row.cfa.register is not None else CFA] + row.cfa.at) & top
        before = dict(here)
        for number, rule in row.rules.items():
            if rule is None:
                before.pop(number, None)
            elif rule.register is not None:
                before[number] = here[rule.register]
            else:
                value = self._value(rule, here, cfa)
                before[number] = value if rule.is_value else self.memory.word(value)
        before[self.machine.stack] = cfa
        if row.entry.returns not in before:
            raise CannotUnwind
        return before, before[row.entry.returns] & ((1 << self.machine.address_bits) - 1)

    def _value(self, rule: Rule, here: Mapping[int, int], cfa: int) -> int:
        if rule.expression is None:
            return (cfa + rule.at) & self.memory.top
        return evaluate(self.memory, rule.expression, here, cfa)


def evaluate(memory: Memory, program: bytes, here: Mapping[int, int], first: int) -> int:
    """A DW_OP_ expression, as far as compilers and linkers write them into these tables."""
    code, stack = Cursor(program, memory.byte_order), [first]
    while code.at < len(program):
        _operate(memory, code, stack, here)
        stack[-1] &= memory.top
    return stack[-1]


def _operate(memory: Memory, code: Cursor, stack: list[int], here: Mapping[int, int]) -> None:
    operation = code.number(1)
    if 0x30 <= operation <= 0x4F:
        stack.append(operation - 0x30)
    elif 0x70 <= operation <= 0x8F:
        stack.append(here[operation - 0x70] + code.sleb())
    elif operation in UNSIGNED:
        stack.append(code.number(UNSIGNED[operation]))
    elif operation in SIGNED:
        size = SIGNED[operation]
        value = code.number(size)
        stack.append(value - (1 << 8 * size) if value >> (8 * size - 1) else value)
    elif operation == 0x06:
        stack.append(memory.word(stack.pop()))
    elif operation == 0x10:
        stack.append(code.uleb())
    elif operation == 0x11:
        stack.append(code.sleb())
    elif operation == 0x23:
        stack.append(stack.pop() + code.uleb())
    elif operation in PAIRS:
        second, one = stack.pop(), stack.pop()
        stack.append(PAIRS[operation](one, second))
    else:
        raise CannotUnwind


UNSIGNED: Mapping[int, int] = {0x08: 1, 0x0A: 2, 0x0C: 4, 0x0E: 8}
SIGNED: Mapping[int, int] = {0x09: 1, 0x0B: 2, 0x0D: 4, 0x0F: 8}
PAIRS: Mapping[int, Callable[[int, int], int]] = {
    0x1A: lambda one, second: one & second,
    0x1C: lambda one, second: one - second,
    0x21: lambda one, second: one | second,
    0x22: lambda one, second: one + second,
    0x24: lambda one, second: one << (second & 63),
    0x2A: lambda one, second: int(one >= second),
}


def by_number(machine: str, values: Mapping[str, int]) -> dict[int, int]:
    """Registers by DWARF's numbers, from their names."""
    return {at: values[name] for at, name in enumerate(NAMES[machine]) if name in values}


NAMES: Mapping[str, Sequence[str]] = {
    "x86_64": ("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{number}" for number in range(8, 16))),
    "aarch64": (*(f"x{number}" for number in range(31)), "sp"),
}
