"""GDB as a Target: what is selected when a command is typed.

Memory comes from the same sources as in the shell (/proc/PID/mem, the mapped core file) where they are provably the
same image; GDB's own read otherwise (a remote stub). Symbols, types and registers are GDB's.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence, TypeVar

import gdb

from arenascope.base.errors import MemoryReadError
from arenascope.sources import debugged_image as debugged
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.elf.elf_file import AT_PAGESZ, parse_auxv
from arenascope.sources.elf.environment_variables import from_stack, parse_block
from arenascope.sources.elf.modules import Module, Modules, loaded_regions
from arenascope.sources.image_files import Source
from arenascope.sources.live.proc_tables import parse_regions
from arenascope.sources.memory import Memory
from arenascope.sources.target import (
    ByteOrder,
    FieldPlace,
    Region,
    RegisterSets,
    StructInfo,
    Symbol,
    SymbolPlace,
    ThreadInfo,
)

MACHINES = {
    "i386:x86-64": "x86_64",
    "i386:x64-32": "x32",
    "i386": "i386",
    "aarch64": "aarch64",
    "arm": "arm",
    "powerpc:common64": "ppc64",
    "powerpc:common": "ppc",
    "s390:64-bit": "s390x",
    "riscv:rv64": "riscv64",
    "loongarch64": "loongarch64",
}
# registers that hold the thread pointer, by their names in GDB and QEMU's stub; s390x splits it into two halves
THREAD_POINTERS = {
    "x86_64": ("fs_base",),
    "x32": ("fs_base",),
    "i386": ("gs_base",),
    "arm": ("tpidruro", "TPIDRURO"),
    "aarch64": ("tpidr", "TPIDR_EL0"),
    "ppc64": ("r13",),
    "ppc": ("r2",),
    "riscv64": ("tp",),
    "loongarch64": ("tp",),
}
T = TypeVar("T")
TLS_FILES = ("malloc.c", "arena.c")
NEAR = (0x300, 0x400, 0x800, 0x1000)
"""Sizes to try for what follows a file's headers and is in no section: notes, symbol tables."""


class GdbTarget(debugged.DebuggedTarget):
    """The selected inferior at this moment."""

    door = "gdb"

    def __init__(self) -> None:
        self.inferior = gdb.selected_inferior()
        if not self.inferior.pid or not self.inferior.threads():
            raise debugged.nothing_there("attach PID, run, or core-file FILE")
        if any(thread.is_running() for thread in self.inferior.threads()):
            raise debugged.running("interrupt it")
        name = self._architecture().name()
        super().__init__(self._open_image(), MACHINES.get(name, "arm" if name.startswith("arm") else name))
        self._tls: dict[str, Optional[int]] = {}

    # the image

    def _architecture(self) -> gdb.Architecture:
        try:
            return gdb.selected_frame().architecture()
        except gdb.error:
            return self.inferior.architecture()

    def _open_image(self) -> Source:
        connection = self._connection()
        image: Optional[Source] = None
        if connection == "native":
            image = debugged.open_process(self.inferior.pid)
        elif connection == "core":
            image = self._open_core()
        return image or self._ask("core" if connection == "core" else "live")

    def _connection(self) -> str:
        """ "native", "core", "remote" …"""
        connection: Optional[gdb.TargetConnection] = getattr(self.inferior, "connection", None)  # GDB 11
        if connection is not None:
            return connection.type
        return "native" if debugged.is_traced_by_us(self.inferior.pid) else "core" if self._open_core() else "remote"

    def _ask(self, kind: str) -> debugged.RemoteImage:
        """Reads what only GDB can reach, and what the remote side reports about it."""
        order: ByteOrder = "little" if int(gdb.Value(b"\1\0\0\0", gdb.lookup_type("int"))) == 1 else "big"
        pid, size = self.inferior.pid, gdb.lookup_type("void").pointer().sizeof
        image = debugged.RemoteImage(kind, pid, size, order, read=self._read_slowly)
        told = ask_remote(getattr(self.inferior, "connection", None), Memory(image.read, size, order), pid)
        image.told_regions, image.told_environment = lambda: told.regions, told.environment
        image.page_size = told.page_size or image.page_size
        # an emulator gives its only process a number of its own
        image.pid = pid if told.has_proc or pid in self._tids() else None
        return image

    def _tids(self) -> list[int]:
        return [thread.ptid[1] or thread.ptid[0] for thread in self.inferior.threads()]

    def _open_core(self) -> Optional[CoreImage]:
        return debugged.find_core(debugged.held_files(), self._tids(), self._read_slowly)

    def _read_slowly(self, address: int, size: int) -> bytes:
        try:
            return bytes(self.inferior.read_memory(address, size))
        except (gdb.error, OverflowError, ValueError):
            raise MemoryReadError(address, size) from None

    def local_paths(self, region: Region) -> Sequence[str]:
        sysroot = str(gdb.parameter("sysroot") or "")
        within = sysroot.rstrip("/") + region.path if not sysroot.startswith("target:") else region.path
        return [within, region.path]

    # symbols and types

    @property
    def type_folders(self) -> Sequence[str]:
        return str(gdb.parameter("debug-file-directory") or "").split(os.pathsep)

    def own_symbols(self, name: str) -> Iterator[Symbol]:
        for lookup in (_libc_symbols, _any_symbol):
            for symbol in lookup(name):
                try:
                    place = symbol.value().address
                except (gdb.error, TypeError):
                    continue
                if place is not None:
                    yield Symbol(int(place), _build_id(symbol.symtab))
        try:
            # a symbol without debug information: of a static program, or of a libc with its symbol table
            address = int(gdb.parse_and_eval(f"&{name}")) & self.mask()
        except gdb.error:
            return
        if self.is_believed(_build_id_of(_library_at(address))):
            yield Symbol(address)

    def own_build_id(self, module: Sequence[Region]) -> Optional[str]:
        """Build-id of GDB's file for the module. If that file is another one, its sections may lie elsewhere than the
        module's."""
        if self._program is not None and module[0].start == self._program.base:
            with suppress(UnicodeDecodeError):
                return _build_id_of(self.inferior.progspace.filename)
            return None
        places = (region.start + place for region in module for place in (*NEAR, region.size // 2))
        return _build_id_of(next((name for name in map(_library_at, places) if name), None))

    def loaded_files(self, region: Region, build_id: str) -> Sequence[str]:
        files = [(each, file_name(each)) for each in gdb.objfiles() if file_name(each)]
        if not build_id:
            return [name for _, name in files if os.path.realpath(name) == os.path.realpath(region.path)]
        known = [(each.owner is None, name) for each, name in files if getattr(each, "build_id", None) == build_id]
        return [os.path.abspath(name) for _, name in sorted(known)]

    @cached_property
    def _program(self) -> Optional[Module]:
        return Modules(self, self._modules).program

    def name_in_debugger(self, address: int) -> Optional[debugged.DebuggerName]:
        """Name of a data symbol, by Value.format_string: before format_address (GDB 13) there is no other way to it."""
        try:
            pointer = gdb.Value(address).cast(gdb.lookup_type("void").pointer())
            name, _, offset = pointer.format_string(format="a").partition("<")[2].rstrip(">").rpartition("+")
        except gdb.error:
            return None
        if not name:
            name, offset = offset, "0"
        if not name or not offset.isdigit():
            return None
        return debugged.DebuggerName(SymbolPlace(name, int(offset)), _build_id_of(_library_at(address)))

    def own_structs(self, name: str) -> Iterator[debugged.DebuggerStruct]:
        for kind in _types(name):
            struct = _struct(name, kind)
            if struct is not None:
                yield debugged.DebuggerStruct(struct, getattr(kind.objfile, "build_id", None))

    def thread_local(self, name: str, thread: ThreadInfo) -> Optional[int]:
        """Address of a thread-local variable of libc. Its distance from the thread pointer is the same in every thread,
        so that one look-up is enough."""
        if name not in self._tls:
            self._tls[name] = self._tls_distance(name)
        distance = self._tls[name]
        if distance is None or thread.thread_pointer is None:
            return None
        return thread.thread_pointer + distance

    def _tls_distance(self, name: str) -> Optional[int]:
        selected = gdb.selected_thread()
        pointer = self._thread_pointer(selected)
        if pointer is None:
            return None
        for symbol in _libc_symbols(name):
            if not self.is_believed(_build_id(symbol.symtab)):
                continue
            try:
                place = symbol.value(gdb.newest_frame()).address
            except (gdb.error, TypeError):
                continue
            if place is not None:
                return int(place) - pointer
        return None

    # threads

    def own_threads(self) -> Sequence[ThreadInfo]:
        return self.of_each_thread(self._thread)

    def own_register_sets(self) -> Sequence[RegisterSets]:
        def of(thread: gdb.InferiorThread) -> RegisterSets:
            return self.registers_by_name(thread.ptid[1] or thread.ptid[0], self._register, self._wide_register)

        return self.of_each_thread(of)

    def of_each_thread(self, ask: Callable[[gdb.InferiorThread], T]) -> list[T]:
        """Calls `ask` with every thread selected, then restores the selection."""
        selected = gdb.selected_thread()
        frame = gdb.selected_frame() if selected else None
        answers = []
        try:
            for thread in self.inferior.threads():
                thread.switch()
                if self.kind == "core":
                    # at the first read of registers GDB warns of those that it does not know, even into captured output
                    with suppress(gdb.error):
                        gdb.execute("output $pc", to_string=True)
                answers.append(ask(thread))
        finally:
            if selected and selected.is_valid():
                selected.switch()
                if frame and frame.is_valid():
                    frame.select()
        return answers

    def _thread(self, thread: gdb.InferiorThread) -> ThreadInfo:
        tid = thread.ptid[1] or thread.ptid[0]
        return ThreadInfo(
            tid,
            self._thread_name(thread, tid),
            stack_pointer=self._register("sp"),
            thread_pointer=self._thread_pointer(thread),
            program_counter=self._register("pc"),
        )

    def _thread_name(self, thread: gdb.InferiorThread, tid: int) -> Optional[str]:
        try:
            return thread.name
        except UnicodeDecodeError:
            # GDB decodes every name as UTF-8
            return next((each.name for each in self.image.threads() if each.tid == tid), None)

    def _thread_pointer(self, thread: gdb.InferiorThread) -> Optional[int]:
        values = (self._register(name) for name in THREAD_POINTERS.get(self.machine, ()))
        value = next((value for value in values if value is not None), None)
        if self.machine == "s390x":
            high, low = self._register("acr0"), self._register("acr1")
            value = high << 32 | low if high is not None and low is not None else None
        if value is None and self.machine in ("i386", "x86_64", "x32", "s390x"):
            try:
                # on these machines pthread_t is the thread pointer; libthread_db knows it
                value = int.from_bytes(thread.handle(), self.byte_order)
            except (gdb.error, NotImplementedError, AttributeError):
                return None
        return value

    def _register(self, name: str) -> Optional[int]:
        try:
            return int(gdb.newest_frame().read_register(name)) & self.mask()
        except (gdb.error, ValueError, TypeError):
            return None

    def _wide_register(self, name: str) -> bytes:
        # without AVX the register has only its lower half
        for register, member in ((name, "v4_int64"), (name.replace("ymm", "xmm"), "v2_int64")):
            try:
                value = gdb.newest_frame().read_register(register)[member]
                words = [int(value[index]) for index in range(int(member[1]))]
            except (gdb.error, ValueError, TypeError):
                continue
            return b"".join((word & (1 << 64) - 1).to_bytes(8, self.byte_order) for word in words)
        return b""

    def evaluate(self, expression: str) -> int:
        try:
            return int(gdb.parse_and_eval(expression)) & self.mask()
        except (gdb.error, TypeError) as error:
            raise debugged.no_address(expression, error) from None


def _libc_symbols(name: str) -> list[gdb.Symbol]:
    """Static variables of that name in malloc's own source files: programs may have a `tcache` of their own."""
    symbols = gdb.lookup_static_symbols(name)
    return [symbol for symbol in symbols if os.path.basename(symbol.symtab.filename) in TLS_FILES]


def _any_symbol(name: str) -> list[gdb.Symbol]:
    symbols = [gdb.lookup_global_symbol(name), gdb.lookup_static_symbol(name)]
    return [symbol for symbol in symbols if symbol is not None]


def file_name(of: gdb.Objfile) -> str:
    """Empty if there is no name, or it is not UTF-8."""
    with suppress(UnicodeDecodeError):
        return of.filename or ""
    return ""


def _build_id(symtab: Optional[gdb.Symtab]) -> Optional[str]:
    """Build-id of the file whose debug information has the symbol."""
    return getattr(symtab.objfile, "build_id", None) if symtab is not None else None


def _library_at(address: int) -> Optional[str]:
    """The library that has a section here, according to GDB; None also if its path is not UTF-8."""
    try:
        return gdb.solib_name(address)
    except UnicodeDecodeError:
        return None


def _build_id_of(name: Optional[str]) -> Optional[str]:
    """Build-id of a file that GDB has loaded: see GdbTarget.loaded_build_id."""
    try:
        file = gdb.lookup_objfile(name) if name else None
    except ValueError:
        return None
    return getattr(file, "build_id", None) or "" if file is not None else None


def _types(name: str) -> Iterator[gdb.Type]:
    """Types of this name, GDB's first choice first."""
    first = None
    with suppress(gdb.error):
        first = gdb.lookup_type(f"struct {name}")
        yield first
    if first is None or not hasattr(gdb.Objfile, "lookup_static_symbol"):
        return
    for file in gdb.objfiles():
        for lookup in (file.lookup_global_symbol, file.lookup_static_symbol):
            with suppress(gdb.error):
                symbol = lookup(name, gdb.SYMBOL_STRUCT_DOMAIN)
                if symbol is not None and symbol.type is not None:
                    yield symbol.type


def _struct(name: str, kind: gdb.Type) -> Optional[StructInfo]:
    members: dict[str, FieldPlace] = {}
    try:
        for each in kind.fields():
            # static members and virtual bases have no offset
            place = getattr(each, "bitpos", None)
            if each.name and each.type is not None and place is not None:
                members[each.name] = FieldPlace(place // 8, each.type.sizeof)
    except (gdb.error, AttributeError, TypeError):
        return None
    return StructInfo(name, kind.sizeof, members) if members else None


BLOCK = 2048
MAX_BYTES = 64 << 20
"""Larger than any /proc file that we read."""
ESCAPE, FLIPPED = 0x7D, 0x20


class StubFacts(NamedTuple):
    """What the stub's machine says about the process."""

    page_size: Optional[int]
    regions: Sequence[Region]
    environment: Optional[Mapping[str, str]]
    has_proc: bool
    """The mappings come from /proc/PID there, so that the pid is the process's real one."""


def ask_remote(connection: object, memory: Memory, pid: int) -> StubFacts:
    stub = _Stub(connection)
    raw = stub.auxv()
    auxv = parse_auxv(raw, memory.pointer_size, memory.mark)
    page = auxv.get(AT_PAGESZ)
    maps = stub.file(f"/proc/{pid}/maps")
    if maps:
        environ = stub.file(f"/proc/{pid}/environ")
        environment = parse_block(environ) if environ is not None else None
        return StubFacts(page, parse_regions(maps), environment, True)
    regions = loaded_regions(memory, auxv, page) if page else ()
    return StubFacts(page, regions, from_stack(memory.read, auxv, raw, memory.pointer_size, mark=memory.mark), False)


class _Stub:
    """Talks to the stub. Methods return None or nothing if this GDB (before 12) or this stub cannot answer."""

    def __init__(self, connection: object) -> None:
        self._packet = getattr(connection, "send_packet", None)

    def file(self, path: str) -> Optional[bytes]:
        """Contents of a file on the stub's machine."""
        opened = _number(self._send(f"vFile:open:{path.encode().hex()},0,0"))
        if opened is None:
            return None
        data = b""
        while len(data) < MAX_BYTES:
            reply = self._send(f"vFile:pread:{opened:x},{BLOCK:x},{len(data):x}")
            count = _number(reply)
            if not count:
                break
            data += _unescape(reply.partition(b";")[2])[:count]
        self._send(f"vFile:close:{opened:x}")
        return data if count == 0 else None

    def auxv(self) -> bytes:
        """The auxiliary vector."""
        data = b""
        while len(data) < BLOCK:
            reply = self._send(f"qXfer:auxv:read::{len(data):x},{BLOCK:x}")
            data += _unescape(reply[1:]) if reply[:1] in (b"m", b"l") else b""
            if reply[:1] != b"m":
                break
        return data

    def _send(self, packet: str) -> bytes:
        """Sends a packet and returns the reply; b"" if the stub does not know it, for which GDB returns None."""
        try:
            return (self._packet(packet) or b"") if self._packet else b""
        except gdb.error:
            return b""


def _number(reply: bytes) -> Optional[int]:
    """The number after F in a vFile reply; "F-1,errno" is an error."""
    if reply[:1] != b"F" or reply[1:2] == b"-":
        return None
    digits = reply[1:].partition(b";")[0].partition(b",")[0]
    return int(digits, 16)


def _unescape(data: bytes) -> bytes:
    """Decodes binary data of the remote protocol: 0x7d escapes a byte that has bit 5 flipped."""
    parts = data.split(bytes([ESCAPE]))
    return parts[0] + b"".join(bytes([part[0] ^ FLIPPED]) + part[1:] for part in parts[1:] if part)
