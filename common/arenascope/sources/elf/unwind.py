"""Unwinds stacks by .eh_frame, as the loader mapped it: which code has tables, and how to leave it.

A debugger that finds none for a piece of code guesses how to leave it, and may miss what was interrupted. Its frames
are therefore believed only as far as each of them lies in code that these tables cover.
"""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError
from ..memory import Memory
from ..target import ByteOrder, Region
from .elf_file import Elf

PT_GNU_EH_FRAME = 0x6474E550
HEADER = bytes([1, 0x1B, 0x03, 0x3B])
"""The version and the encodings that every linker writes: a pointer, a count, and a sorted table of pairs of
offsets."""
LIMIT = 1 << 16
"""The longest entry of the tables."""
SIZES = {0x00: 0, 0x02: 2, 0x03: 4, 0x04: 8, 0x0A: 2, 0x0B: 4, 0x0C: 8}
"""DW_EH_PE_ formats: bytes of a number, 0 standing for a word."""


class UnwindEntry(NamedTuple):
    """A function's entry in the tables: its two programs (DW_CFA_…) tell how to leave it."""

    start: int
    end: int
    is_signal: bool
    """Whether a signal handler returns to here: the frame beyond was interrupted, and is not at a call."""
    returns: int
    """The number of the register that has the return address."""
    code_align: int
    data_align: int
    common: bytes
    """The program shared by this and many other functions."""
    own: bytes


class RegisterRule(NamedTuple):
    """The place of a register's value in the caller: `at` bytes from the frame's address, or an expression."""

    at: int = 0
    expression: Optional[bytes] = None
    is_value: bool = False
    """Whether it is the value itself, rather than its place."""
    register: Optional[int] = None
    """For the frame's own address: the register that `at` counts from. For another register: the one that holds it."""


class UnwindRow(NamedTuple):
    """The tables' rules for one instruction."""

    entry: UnwindEntry
    cfa: RegisterRule
    rules: Mapping[int, Optional[RegisterRule]]
    """None: the value is lost (DW_CFA_undefined). Registers without a rule are unchanged."""

    @property
    def is_start(self) -> bool:
        """Whether nothing called this: a thread or the process begins here."""
        return self.rules.get(self.entry.returns, self.cfa) is None


class CannotUnwind(Exception):
    """The tables have nothing for this code, or something that is not supported here."""


class UnwindTables:
    """The tables of every module that is mapped, looked up by address."""

    def __init__(self, memory: Memory, regions: Sequence[Region]) -> None:
        self.memory = memory
        self.regions = regions
        self._headers: dict[int, Optional[int]] = {}
        self._known: dict[int, Optional[UnwindRow]] = {}

    def find(self, address: int) -> Optional[UnwindRow]:
        """Returns the entry that covers this address; None if there is none, or it cannot be read or is not
        supported."""
        if address not in self._known:
            entry = self._entry_at(address)
            try:
                self._known[address] = row_at(entry, address, self.memory) if entry is not None else None
            except (CannotUnwind, LookupError):
                self._known[address] = None
        return self._known[address]

    def _entry_at(self, address: int) -> Optional[UnwindEntry]:
        """Returns the tables' entry for the function at this address."""
        base = self._base(address)
        if base is None:
            return None
        if base not in self._headers:
            self._headers[base] = self._header(base)
        header = self._headers[base]
        try:
            place = self._search(header, address) if header is not None else None
            entry = self._parse(place) if place is not None else None
        except (ArenascopeError, LookupError):
            return None
        return entry if entry is not None and entry.start <= address < entry.end else None

    def _base(self, address: int) -> Optional[int]:
        """Returns the first address of the file that is mapped here."""
        first: Optional[Region] = None
        for region in self.regions:
            if region.start > address:
                break
            if (region.is_file and not region.offset) or region.path == "[vdso]":
                first = region
            if region.contains(address):
                return first.start if first is not None and first.path == region.path else None
        return None

    def _header(self, base: int) -> Optional[int]:
        try:
            elf = Elf(self.memory.read, base, mapped=True)
            segment = elf.segment(PT_GNU_EH_FRAME)
            if segment is None or self.memory.read(elf.bias + segment.address, 4) != HEADER:
                return None
            return elf.bias + segment.address
        except ArenascopeError:
            return None

    def _search(self, header: int, address: int) -> Optional[int]:
        """Returns the last entry that begins at or before the address, by bisection: large tables take megabytes."""
        low, high = 0, self.memory.u32(header + 8)
        table = header + 12
        while low < high:
            middle = (low + high) // 2
            if header + self._signed(table + 8 * middle) <= address:
                low = middle + 1
            else:
                high = middle
        return header + self._signed(table + 8 * (low - 1) + 4) if low else None

    def _signed(self, address: int) -> int:
        value = self.memory.u32(address)
        return value - (1 << 32) if value >> 31 else value

    def _entry(self, address: int) -> bytes:
        length = self.memory.u32(address)
        # 0xffffffff: a 64-bit length, which nobody writes
        return self.memory.read(address + 4, length) if length <= LIMIT else b""

    def _parse(self, address: int) -> Optional[UnwindEntry]:
        """Parses a frame description entry, with the common information entry that it names."""
        body = Cursor(self._entry(address), self.memory.byte_order)
        common = Cursor(self._entry(address + 4 - body.number(4)), self.memory.byte_order)
        common.number(4)
        version, letters = common.number(1), common.text()
        code_align, data_align = common.uleb(), common.sleb()
        returns = common.number(1) if version == 1 else common.uleb()
        encoding = 0
        rest = common.uleb() if letters.startswith("z") else 0
        after = common.at + rest
        for letter in letters[1:]:
            if letter == "R":
                encoding = common.number(1)
            elif letter == "L":
                common.number(1)
            elif letter == "P":
                common.number(self._size(common.number(1)))
            elif letter not in "SB":
                return None
        size = self._size(encoding)
        place = address + 8
        start, length = body.number(size), body.number(size)
        start -= 1 << 8 * size if start >> (8 * size - 1) else 0
        start = (start + place if encoding & 0x70 == 0x10 else start) & self.memory.top
        if letters.startswith("z"):
            body.at = body.uleb() + body.at
        return UnwindEntry(
            start,
            start + length,
            "S" in letters,
            returns=returns,
            code_align=code_align,
            data_align=data_align,
            common=common.data[after:],
            own=body.data[body.at :],
        )

    def _size(self, encoding: int) -> int:
        return SIZES[encoding & 0x0F] or self.memory.pointer_size


class Cursor:
    """A cursor over an entry."""

    def __init__(self, data: bytes, byte_order: ByteOrder) -> None:
        self.data, self.byte_order, self.at = data, byte_order, 0

    def number(self, size: int) -> int:
        raw = self.data[self.at : self.at + size]
        if len(raw) != size:
            raise IndexError
        self.at += size
        return int.from_bytes(raw, self.byte_order)

    def text(self) -> str:
        end = self.data.index(b"\0", self.at) if b"\0" in self.data[self.at :] else len(self.data)
        text = self.data[self.at : end].decode("latin-1")
        self.at = end + 1
        return text

    def uleb(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def sleb(self) -> int:
        start, value = self.at, self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value


def row_at(entry: UnwindEntry, address: int, memory: Memory) -> UnwindRow:
    """Runs an entry's programs up to an instruction."""
    state = _CfaProgram(entry, memory)
    state.run(entry.common, memory.top)
    state.first = dict(state.rules)
    state.run(entry.own, address - entry.start)
    if state.cfa is None:
        raise CannotUnwind
    return UnwindRow(entry, state.cfa, state.rules)


class _CfaProgram:
    """An interpreter of DW_CFA_ instructions."""

    def __init__(self, entry: UnwindEntry, memory: Memory) -> None:
        self.entry, self.memory = entry, memory
        self.cfa: Optional[RegisterRule] = None
        self.rules: dict[int, Optional[RegisterRule]] = {}
        self.first: dict[int, Optional[RegisterRule]] = {}
        self.kept: list[tuple[Optional[RegisterRule], dict[int, Optional[RegisterRule]]]] = []

    def run(self, program: bytes, reach: int) -> None:
        code = Cursor(program, self.memory.byte_order)
        place = 0
        while code.at < len(program):
            operation = code.number(1)
            kind, low = operation & 0xC0, operation & 0x3F
            if kind == 0x40 or operation in (2, 3, 4):
                place += (low if kind else code.number(1 << (operation - 2))) * self.entry.code_align
                if place > reach:
                    return
            elif kind == 0x80:
                self.rules[low] = RegisterRule(code.uleb() * self.entry.data_align)
            elif kind == 0xC0:
                self._restore(low)
            else:
                self._obey(operation, code)

    def _restore(self, number: int) -> None:
        self.rules.pop(number, None)
        if number in self.first:
            self.rules[number] = self.first[number]

    def _obey(self, operation: int, code: Cursor) -> None:
        align = self.entry.data_align
        if operation in (0x00, 0x2D, 0x2E):  # nop; the return address is signed; what callers push
            if operation == 0x2E:
                code.uleb()
        elif operation in (0x05, 0x11):  # offset_extended, and signed
            self.rules[code.uleb()] = RegisterRule((code.uleb() if operation == 0x05 else code.sleb()) * align)
        elif operation == 0x06:
            self._restore(code.uleb())
        elif operation == 0x07:
            self.rules[code.uleb()] = None
        elif operation == 0x08:  # same_value
            self.rules.pop(code.uleb(), None)
        elif operation == 0x09:
            self.rules[code.uleb()] = RegisterRule(register=code.uleb())
        elif operation == 0x0A:
            self.kept.append((self.cfa, dict(self.rules)))
        elif operation == 0x0B:
            self.cfa, self.rules = self.kept.pop()
        elif operation in (0x0C, 0x12):  # def_cfa, and signed
            number = code.uleb()
            self.cfa = RegisterRule(code.uleb() if operation == 0x0C else code.sleb() * align, register=number)
        elif operation in (0x0D, 0x0E, 0x13) and self.cfa is not None and self.cfa.expression is None:
            if operation == 0x0D:
                self.cfa = self.cfa._replace(register=code.uleb())
            else:
                self.cfa = self.cfa._replace(at=code.uleb() if operation == 0x0E else code.sleb() * align)
        elif operation == 0x0F:
            self.cfa = RegisterRule(expression=_block(code), is_value=True)
        elif operation in (0x10, 0x16):  # expression, val_expression
            self.rules[code.uleb()] = RegisterRule(expression=_block(code), is_value=operation == 0x16)
        elif operation in (0x14, 0x15):  # val_offset, and signed
            number = code.uleb()
            self.rules[number] = RegisterRule(
                (code.uleb() if operation == 0x14 else code.sleb()) * align, is_value=True
            )
        else:
            raise CannotUnwind


def _block(code: Cursor) -> bytes:
    size = code.uleb()
    start, code.at = code.at, code.at + size
    return code.data[start : code.at]


class Machine(NamedTuple):
    """A machine's facts for unwinding, in DWARF's numbers of registers."""

    stack: int
    from_signal: Mapping[int, int]
    """The offsets from that frame's stack pointer where the kernel saves each register for a handler's return."""
    signal_counter: int
    address_bits: int
    """Bits above these are a signature (pointer authentication)."""


# ucontext: flags, link, stack (24 bytes), then on x86 the registers of struct sigcontext in its order; on ARM the
# siginfo comes first (128), and the mask's 128 bytes stand before fault_address, x0 to x30, sp, pc
_X86_ORDER = (8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7)
_ARM_REGISTERS = 128 + 168 + 8 + 8
MACHINES: Mapping[str, Machine] = {
    "x86_64": Machine(7, {number: 40 + 8 * at for at, number in enumerate(_X86_ORDER)}, 40 + 8 * 16, 64),
    "aarch64": Machine(31, {number: _ARM_REGISTERS + 8 * number for number in range(32)}, _ARM_REGISTERS + 256, 48),
}

CFA = -1


class UnwoundFrame(NamedTuple):
    pc: int
    stack_pointer: int
    saved: Sequence[int] = ()
    """Where functions that it called, directly or not, have saved registers that are still its own."""


class Unwinder:
    """The frames of threads of one process at one moment."""

    def __init__(self, memory: Memory, tables: UnwindTables, machine: str) -> None:
        self.memory, self.tables, self.machine = memory, tables, MACHINES[machine]

    def frames(self, registers: Mapping[int, int], pc: int, limit: int) -> Iterator[UnwoundFrame]:
        """Yields frames, the innermost first. `registers` by DWARF's numbers."""
        exact, here = True, dict(registers)
        saved: dict[int, int] = {}
        for _ in range(limit):
            stack = here[self.machine.stack]
            yield UnwoundFrame(pc, stack, tuple(saved.values()))
            try:
                row = self.tables.find(pc if exact else pc - 1)
                if row is None:
                    return
                if row.entry.is_signal:
                    here, pc, exact = *self._interrupted(stack), True
                    saved = {number: stack + at for number, at in self.machine.from_signal.items()}
                    continue
                here, pc = self._caller(row, here, saved)
            except (CannotUnwind, MemoryReadError, LookupError):
                return
            exact = False
            if not pc or here[self.machine.stack] < stack:
                return  # a caller lies above

    def _interrupted(self, stack: int) -> tuple[dict[int, int], int]:
        registers = {number: self.memory.word(stack + at) for number, at in self.machine.from_signal.items()}
        return registers, self.memory.word(stack + self.machine.signal_counter)

    def _caller(self, row: UnwindRow, here: Mapping[int, int], saved: dict[int, int]) -> tuple[dict[int, int], int]:
        """Registers and the next instruction. `saved` is kept up to date: where each register lies on the stack."""
        top = self.memory.top
        cfa = self._value(row.cfa, here, 0) if row.cfa.expression is not None else None
        if cfa is None:
            cfa = (here[row.cfa.register if row.cfa.register is not None else CFA] + row.cfa.at) & top
        before = dict(here)
        for number, rule in row.rules.items():
            saved.pop(number, None)
            if rule is None:
                before.pop(number, None)
            elif rule.register is not None:
                before[number] = here[rule.register]
            else:
                value = self._value(rule, here, cfa)
                before[number] = value if rule.is_value else self.memory.word(value)
                if not rule.is_value and number != row.entry.returns:
                    saved[number] = value
        before[self.machine.stack] = cfa
        if row.entry.returns not in before:
            raise CannotUnwind
        return before, before[row.entry.returns] & ((1 << self.machine.address_bits) - 1)

    def _value(self, rule: RegisterRule, here: Mapping[int, int], cfa: int) -> int:
        if rule.expression is None:
            return (cfa + rule.at) & self.memory.top
        return evaluate(self.memory, rule.expression, here, cfa)


def evaluate(memory: Memory, program: bytes, here: Mapping[int, int], first: int) -> int:
    """Evaluates a DW_OP_ expression, as far as compilers and linkers write them into these tables."""
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
    """Converts registers' names to DWARF's numbers."""
    return {at: values[name] for at, name in enumerate(NAMES[machine]) if name in values}


NAMES: Mapping[str, Sequence[str]] = {
    "x86_64": ("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{number}" for number in range(8, 16))),
    "aarch64": (*(f"x{number}" for number in range(31)), "sp"),
}
