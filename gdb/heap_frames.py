"""Local variables of threads' frames, as GDB unwinds them. Used in GDB itself, and in the GDB that the shell starts
(heap_files.py)."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Sequence

import gdb

from arenascope.sources.debug_info_types import Local, VariableFrame
from arenascope.sources.debugged_variables import FRAMES, LARGEST_IN_REGISTERS, THREADS

if TYPE_CHECKING:
    # to mypy this folder is a part of GDB's own package
    from gdb.heap_target import GdbTarget
    from gdb.heap_types import GdbTypes

ELSEWHERE = (gdb.SYMBOL_LOC_STATIC, gdb.SYMBOL_LOC_UNRESOLVED)
"""Address classes of variables that are on no stack."""
NUMBERS = (
    gdb.TYPE_CODE_PTR,
    gdb.TYPE_CODE_INT,
    gdb.TYPE_CODE_CHAR,
    gdb.TYPE_CODE_BOOL,
    gdb.TYPE_CODE_ENUM,
)
MOST_PARTS = 1000
"""Members of members that are read of a value in registers: unions of unions have 2^n."""
CALLS, PAST_MAIN = "may-call-functions", "backtrace past-main"


class Declared(NamedTuple):
    """Where a frame's variable is declared. A GDB without the process finds the variable's type by this."""

    code: int
    """An address within the function's blocks."""
    depth: int
    """Which of the nested blocks at `code`: 0 is the outermost function's."""
    number: int
    """The index of the symbol in its block."""


class FrameVariable(NamedTuple):
    """A Local whose type has not been given a number yet."""

    local: Local
    type: gdb.Type
    symbol: gdb.Symbol
    declared: Optional[Declared]
    """None: no address identifies the blocks of its frame."""


class GdbFrames:
    """Reads the frames of a GdbTarget, for one command."""

    def __init__(self, target: GdbTarget, types: GdbTypes) -> None:
        self.target = target
        self.types = types

    def locals(self) -> Sequence[Local]:
        found: list[Local] = []
        for each in self.of_frames():
            with suppress(gdb.error, RuntimeError, TypeError, ValueError):
                found.append(each.local._replace(type=self.types.number(each.type, each.symbol.symtab)))
        return found

    def of_frames(self) -> Sequence[FrameVariable]:
        """Like `locals`, but gives no type a number."""
        found: list[FrameVariable] = []

        def ask(thread: gdb.InferiorThread) -> None:
            tid = thread.ptid[1] or thread.ptid[0]
            with suppress(gdb.error, RuntimeError):
                frame: Optional[gdb.Frame] = gdb.newest_frame()
                for number in range(FRAMES):
                    if frame is None:
                        break
                    found.extend(self._locals_of(frame, tid, number))
                    if frame.name() == "main":
                        break  # the caller is libc
                    frame = frame.older()

        # frames above main tell where main's frame ends
        with self.without_calls(), _switched(PAST_MAIN, "on"):
            self.target.of_each_thread(ask, THREADS)
        return found

    def types_at(self, code: int) -> list[list[Optional[int]]]:
        """The types of all variables of the blocks at `code`, by Declared's depth and number. Needs no process."""
        return [[self._type_of(symbol) for symbol in block] for block in self.blocks_at(code)]

    def _type_of(self, symbol: gdb.Symbol) -> Optional[int]:
        if _is_local(symbol) and symbol.type is not None and self.types.believes(symbol.symtab):
            with suppress(gdb.error, RuntimeError, TypeError, ValueError):
                return self.types.number(symbol.type, symbol.symtab)
        return None

    def _locals_of(self, frame: gdb.Frame, tid: int, number: int) -> Iterator[FrameVariable]:
        function = frame.function()
        if function is None or not self.types.believes(function.symtab):
            return
        try:
            block: Optional[gdb.Block] = frame.block()
        except (gdb.error, RuntimeError):
            return
        # GDB 13 takes an array's length from variables of the selected frame
        frame.select()
        name, line, code = self.called(function), frame.find_sal().line, self._code_of(frame, block)
        within: Optional[VariableFrame] = None
        while block is not None and not block.is_static and not block.is_global:
            depth = _depth(block)
            for at, symbol in enumerate(block):
                if not _is_local(symbol):
                    continue
                # a variable declared further down has a place but no value yet
                if symbol.is_argument or symbol.line <= line or symbol.symtab != function.symtab:
                    found = self._local(frame, block, symbol)
                    if found is not None:
                        local = found.local._replace(tid=tid, frame=number, function=name)
                        if local.address is None and local.data is None and self._may_be_pointer(found.type):
                            within = within or self._frame(frame)
                            local = local._replace(within=within)
                        declared = Declared(code, depth, at) if code is not None else None
                        yield found._replace(local=local, declared=declared)
            if block.function is not None:
                break
            block = block.superblock

    def _local(self, frame: gdb.Frame, block: gdb.Block, symbol: gdb.Symbol) -> Optional[FrameVariable]:
        if symbol.type is None:
            return None
        local = Local(symbol.name, 0, tid=0, frame=0, function="")
        found = FrameVariable(local, symbol.type, symbol, None)
        try:
            # raises for a type that leads back to itself, which GDB would follow forever
            self.types.plain(symbol.type)
            value = frame.read_var(symbol, block)
            # for an array whose length is known only at run time
            found = found._replace(type=value.type)
            place = self._place_of(value)
            if place is not None:
                if self.is_reference(value.type):
                    # the address that GDB gives is that of the object referred to
                    word = self.target.pointer_size
                    return found._replace(local=local._replace(data=place.to_bytes(word, self.target.byte_order)))
                return found._replace(local=local._replace(address=place))
            if not value.is_optimized_out:
                return found._replace(local=local._replace(data=self._data(value)))
        except (gdb.error, RuntimeError, TypeError, ValueError):
            return found._replace(type=symbol.type)
        return found

    def _may_be_pointer(self, type: gdb.Type) -> bool:
        """Whether a value of the type has a pointer's size and may be a pointer, or a struct that has only a
        pointer."""
        with suppress(RuntimeError):
            kind = self.types.plain(type)
            return kind.sizeof == self.target.pointer_size and kind.code not in NUMBERS[1:]
        return False

    def _frame(self, frame: gdb.Frame) -> Optional[VariableFrame]:
        with suppress(gdb.error, RuntimeError):
            low = high = self._register(frame, "sp")
            older: Optional[gdb.Frame] = frame
            # an inlined frame has the same stack pointer as its caller
            while older is not None and high == low:
                older = older.older()
                high = self._register(older, "sp") if older is not None else low
            registers = []
            for each in frame.architecture().registers("general"):
                # some registers are not saved
                with suppress(gdb.error, RuntimeError, TypeError):
                    registers.append(self._register(frame, each.name))
            return VariableFrame(frame.pc(), low, max(low, high), tuple(registers))
        return None

    def _register(self, frame: gdb.Frame, name: str) -> int:
        return int(frame.read_register(name)) & self.target.mask()

    def structs_of_source_file(self, code: int, least: int, most: int) -> Sequence[int]:
        """Structs of `least` to `most` bytes in the source file that has the function at this address."""
        block, found = gdb.block_for_pc(code), dict[int, None]()
        for part in (block.global_block, block.static_block) if block is not None else ():
            for symbol in part if part is not None else ():
                type = symbol.type if symbol.addr_class == gdb.SYMBOL_LOC_TYPEDEF else None
                if type is not None and type.code == gdb.TYPE_CODE_STRUCT and least <= type.sizeof <= most:
                    found[self.types.number(type, symbol.symtab)] = None
        return list(found)

    def _place_of(self, value: gdb.Value) -> Optional[int]:
        with suppress(gdb.error):
            return int(value.address) & self.target.mask() if value.address is not None else None
        # GDB cannot place an array that is not in memory
        return None

    def _data(self, value: gdb.Value) -> Optional[bytes]:
        """The bytes of a value that lies in registers."""
        size = value.type.sizeof
        if not 0 < size <= LARGEST_IN_REGISTERS:
            return None
        data: Optional[bytes] = getattr(value, "bytes", None)  # GDB 15
        if data is not None:
            return data
        room = bytearray(size)
        self._fill(value, room, 0, MOST_PARTS)
        return bytes(room)

    def _fill(self, value: gdb.Value, room: bytearray, at: int, left: int) -> int:
        """Copies the value into `room`. Parts that are in no register stay zero: a zero is no pointer. Returns how many
        of the `left` parts may still be read."""
        left -= 1
        if left < 0:
            return left
        kind = value.type.strip_typedefs()
        if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
            for field in kind.fields():
                place: Optional[int] = getattr(field, "bitpos", None)
                if place is not None and not field.bitsize:
                    with suppress(gdb.error, RuntimeError):
                        left = self._fill(value[field], room, at + place // 8, left)
        elif kind.code == gdb.TYPE_CODE_ARRAY:
            low, high = kind.range()
            size = kind.target().sizeof
            for index in range(low, min(high, low + len(room)) + 1):
                with suppress(gdb.error, RuntimeError):
                    left = self._fill(value[index], room, at + (index - low) * size, left)
        elif kind.code in NUMBERS and at + kind.sizeof <= len(room):
            number = int(value) & (1 << 8 * kind.sizeof) - 1
            room[at : at + kind.sizeof] = number.to_bytes(kind.sizeof, self.target.byte_order)
        return left

    def _code_of(self, frame: gdb.Frame, block: Optional[gdb.Block]) -> Optional[int]:
        """An address in this block: the frame's pc, or the byte before it, as a return address may lie behind the
        block."""
        if block is None:
            return None
        depth, around = _depth(block), (block.start, block.end)
        for code in (frame.pc(), frame.pc() - 1):
            if [(each.start, each.end) for each in self.blocks_at(code)][depth : depth + 1] == [around]:
                return code
        return None

    @staticmethod
    def is_reference(type: gdb.Type) -> bool:
        return type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)

    @staticmethod
    def blocks_at(pc: int) -> list[gdb.Block]:
        """The nested blocks at this address, the function's own first."""
        blocks = []
        block = gdb.block_for_pc(pc)
        while block is not None and not block.is_static and not block.is_global:
            blocks.append(block)
            block = block.superblock
        return blocks[::-1]

    @staticmethod
    def called(function: gdb.Symbol) -> str:
        name = str(function.print_name)
        return name if name.endswith(")") or ")" in name else f"{name}()"

    @staticmethod
    @contextmanager
    def without_calls() -> Iterator[None]:
        """Keeps GDB from calling functions in the program. For the address of an array that is not in memory (optimised
        out, or in registers) it would call the program's malloc to make room for it."""
        with _switched(CALLS, "off"):
            yield


@contextmanager
def _switched(setting: str, to: str) -> Iterator[None]:
    before = "on" if gdb.parameter(setting) else "off"
    gdb.execute(f"set {setting} {to}", to_string=True)
    try:
        yield
    finally:
        gdb.execute(f"set {setting} {before}", to_string=True)


def _is_local(symbol: gdb.Symbol) -> bool:
    return symbol.addr_class not in ELSEWHERE and (symbol.is_variable or symbol.is_argument)


def _depth(block: gdb.Block) -> int:
    depth, outer = 0, block.superblock
    while outer is not None and not outer.is_static and not outer.is_global:
        depth, outer = depth + 1, outer.superblock
    return depth
