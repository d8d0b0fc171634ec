"""LLDB as a Target: what is selected when a command is typed.

Memory comes from the same sources as in the shell (/proc/PID/mem, the mapped core file) where they are provably the
same image; LLDB's own read otherwise (a remote stub). Symbols, types and registers are LLDB's.
"""

from __future__ import annotations

from functools import cached_property, partial
from itertools import cycle
from typing import Any, Callable, Iterator, Optional, Sequence, TypeVar, cast

import lldb

from arenascope.base.errors import MemoryReadError
from arenascope.sources import debugged_image as debugged
from arenascope.sources.elf.elf_file import BUILD_ID_DIGITS
from arenascope.sources.image_files import Source
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

# the first word of a triple, where Linux calls the machine differently
MACHINES = {
    "amd64": "x86_64",
    "i486": "i386",
    "i586": "i386",
    "i686": "i386",
    "arm64": "aarch64",
    "powerpc64": "ppc64",
    "powerpc64le": "ppc64",
    "ppc64le": "ppc64",
    "powerpc": "ppc",
    "systemz": "s390x",
}
# registers that hold the thread pointer; LLDB has fs_base since 18
THREAD_POINTERS = {"x86_64": "fs_base", "aarch64": "tpidr", "ppc64": "r13", "riscv64": "tp", "loongarch64": "tp"}
STANDING = (lldb.eStateStopped, lldb.eStateCrashed, lldb.eStateSuspended)
RUNNING = (lldb.eStateRunning, lldb.eStateStepping, lldb.eStateLaunching, lldb.eStateAttaching)
READS_BETWEEN_QUESTIONS = 256
BLOCKS_BETWEEN_QUESTIONS = 16
AnyRead = TypeVar("AnyRead", bound=Callable[..., Any])


class LldbTarget(debugged.DebuggedTarget):
    """The selected target's process at this moment."""

    door = "lldb"

    def __init__(self, target: lldb.SBTarget, debugger: lldb.SBDebugger) -> None:
        self.target = target
        self.process = target.GetProcess()
        state = self.process.GetState() if self.process.IsValid() else lldb.eStateInvalid
        if state in RUNNING:
            raise debugged.running("process interrupt")
        if state not in STANDING or not self.process.GetNumThreads():
            raise debugged.nothing_there("process attach -p PID, run, or target create -c FILE")
        super().__init__(self._open_image(), _machine(target.GetTriple()))
        self.read = _interruptible(self.read, debugger, READS_BETWEEN_QUESTIONS)
        self.fill = _interruptible(self.fill, debugger, BLOCKS_BETWEEN_QUESTIONS)
        self.stop_if_asked = _interruptible(self.stop_if_asked, debugger, 1)

    def _open_image(self) -> Source:
        # the plugin is elf-core or the like, or minidump; for any live process it is gdb-remote
        plugin = self.process.GetPluginName() or ""
        image: Optional[Source]
        if "core" in plugin or "minidump" in plugin:
            kind, image = "core", self._open_core()
        else:
            kind, image = "live", debugged.open_process(self.process.GetProcessID())
        return image or self._ask(kind)

    def _open_core(self) -> Optional[Source]:
        told = self.process.GetCoreFile().fullpath if hasattr(self.process, "GetCoreFile") else None  # LLDB 17
        tids = [thread.GetThreadID() for thread in self.process]
        return debugged.find_core([told] if told else debugged.held_files(), tids, self._read_slowly)

    def _ask(self, kind: str) -> debugged.RemoteImage:
        order: ByteOrder = "big" if self.target.GetByteOrder() == lldb.eByteOrderBig else "little"
        size = self.target.GetAddressByteSize()
        image = debugged.RemoteImage(kind, self.process.GetProcessID(), size, order, read=self._read_slowly)
        image.told_regions = lambda: list(self._regions_of_stub())
        return image

    def _read_slowly(self, address: int, size: int) -> bytes:
        if not size:
            return b""
        # a new SBError for each read: a reused one keeps an old failure
        error = lldb.SBError()
        try:
            data = self.process.ReadMemory(address, size, error)
        except (OverflowError, TypeError, ValueError):
            raise MemoryReadError(address, size) from None
        # a read beyond the mapping's end returns short data and no error
        if error.Fail() or data is None or len(data) != size:
            raise MemoryReadError(address, size)
        return bytes(data)

    def _regions_of_stub(self) -> Iterator[Region]:
        """Mappings as the stub reports them. LLDB has no file names for a core's, but cores are read from their
        file."""
        mappings = self.process.GetMemoryRegions()
        info = lldb.SBMemoryRegionInfo()
        for index in range(mappings.GetSize()):
            if mappings.GetMemoryRegionAtIndex(index, info) and info.IsMapped():
                start, end = info.GetRegionBase(), info.GetRegionEnd()
                path = info.GetName() or ""
                yield Region(
                    start,
                    end,
                    readable=info.IsReadable(),
                    writable=info.IsWritable(),
                    executable=info.IsExecutable(),
                    path=path,
                    offset=self._file_offset(start) if path.startswith("/") else 0,
                )

    def _file_offset(self, address: int) -> int:
        section = self.target.ResolveLoadAddress(address).GetSection()
        return section.GetFileOffset() if section.IsValid() else 0

    def local_paths(self, region: Region) -> Sequence[str]:
        module = self.target.ResolveLoadAddress(region.start).GetModule()
        path = module.GetFileSpec().fullpath if module.IsValid() else None
        return [path, region.path] if path else [region.path]

    # symbols and types

    def loaded_files(self, region: Region, build_id: str) -> Sequence[str]:
        module = self.target.ResolveLoadAddress(region.start).GetModule()
        files = (module.GetSymbolFileSpec(), module.GetFileSpec()) if module.IsValid() else ()
        return [*dict.fromkeys(each.fullpath for each in files if each.fullpath)]

    def own_symbols(self, name: str) -> Iterator[Symbol]:
        # the loader also exports some of libc's names
        symbols = sorted(self._symbols(name), key=lambda each: not each[1].startswith(("libc.", "libc-")))
        return (symbol for symbol, _ in symbols)

    def _symbols(self, name: str) -> Iterator[tuple[Symbol, str]]:
        """Definitions of that name, each with its file's name."""
        for context in self.target.FindSymbols(name):
            address = context.GetSymbol().GetStartAddress().GetLoadAddress(self.target)
            # an imported symbol has no address
            if address != lldb.LLDB_INVALID_ADDRESS:
                module = context.GetModule()
                yield Symbol(address, _build_id(module)), module.GetFileSpec().basename or ""
        variable = self.target.FindFirstGlobalVariable(name)
        if variable.IsValid() and variable.GetLoadAddress() != lldb.LLDB_INVALID_ADDRESS:
            module = self.target.ResolveLoadAddress(variable.GetLoadAddress()).GetModule()
            yield Symbol(variable.GetLoadAddress(), _build_id(module)), module.GetFileSpec().basename or ""

    def own_build_id(self, module: Sequence[Region]) -> Optional[str]:
        return self._build_ids.get(module[0].start)

    @cached_property
    def _build_ids(self) -> dict[int, str]:
        """Build-ids of modules that LLDB has a file of, by start address. LLDB 23 reads the others from memory."""
        files = [each for each in self.target.modules if each.IsFileBacked()]
        heads = {each.GetObjectFileHeaderAddress().GetLoadAddress(self.target): each for each in files}
        return {head: _digits(module) for head, module in heads.items()}

    def name_in_debugger(self, address: int) -> Optional[debugged.DebuggerName]:
        place = self.target.ResolveLoadAddress(address)
        symbol = place.GetSymbol()
        start = symbol.GetStartAddress().GetLoadAddress(self.target) if symbol.IsValid() else lldb.LLDB_INVALID_ADDRESS
        name = symbol.GetMangledName() or symbol.GetName()
        if not name or start == lldb.LLDB_INVALID_ADDRESS:
            return None
        return debugged.DebuggerName(SymbolPlace(name, address - start), _build_id(place.GetModule()))

    def own_structs(self, name: str) -> Iterator[debugged.DebuggerStruct]:
        for kind in self._types(name):
            struct = _struct(name, kind)
            module = kind.GetModule() if hasattr(kind, "GetModule") else None  # LLDB 13
            build_id = _build_id(module) if module is not None else None
            # LLDB 22 also lists a library that the program needs but whose file has another build-id: nothing of that
            # file is in the process
            if struct is not None and (module is None or self._has_place(module) or self.is_mapped(build_id)):
                yield debugged.DebuggerStruct(struct, build_id)

    def _has_place(self, module: lldb.SBModule) -> bool:
        return module.GetObjectFileHeaderAddress().GetLoadAddress(self.target) != lldb.LLDB_INVALID_ADDRESS

    def _types(self, name: str) -> Iterator[lldb.SBType]:
        """Types of this name, LLDB's first choice first."""
        yield self.target.FindFirstType(name)
        yield from self.target.FindTypes(name)

    def thread_local(self, name: str, thread: ThreadInfo) -> Optional[int]:
        """Always None: LLDB knows TLS only since 18 and on x86-64, and TLS blocks can be read without it."""
        return None

    # threads

    def own_threads(self) -> Sequence[ThreadInfo]:
        return [self._thread(thread) for thread in self.process]

    def own_register_sets(self) -> Sequence[RegisterSets]:
        return [
            self.registers_by_name(
                thread.GetThreadID(),
                partial(_register, thread.GetFrameAtIndex(0)),
                partial(_wide_register, thread.GetFrameAtIndex(0)),
            )
            for thread in self.process
        ]

    def _thread(self, thread: lldb.SBThread) -> ThreadInfo:
        frame = thread.GetFrameAtIndex(0)
        stack = frame.GetSP()
        name = THREAD_POINTERS.get(self.machine)
        register = frame.FindRegister(name) if name else lldb.SBValue()
        pointer = register.GetValueAsUnsigned() if register.IsValid() else None
        # for a core LLDB names only one thread: that name is the process's
        named = thread.GetName() if self.kind == "live" else None
        counter = frame.GetPC()
        return ThreadInfo(
            thread.GetThreadID(),
            named,
            stack_pointer=None if stack == lldb.LLDB_INVALID_ADDRESS else stack,
            thread_pointer=pointer or None,
            program_counter=None if counter == lldb.LLDB_INVALID_ADDRESS else counter,
        )

    def evaluate(self, expression: str) -> int:
        try:
            return int(expression, 0) & self.mask()
        except ValueError:
            value = self._plain_value(expression)
        error = value.GetError()
        number = value.GetValueAsUnsigned(error) if error.Success() else 0
        if error.Fail():
            reason = (error.GetCString() or "it has no value").strip().splitlines()
            text = next((line for line in reason if "error:" in line), reason[0]).rpartition("error: ")[2]
            raise debugged.no_address(expression, text)
        return number & self.mask()

    def _plain_value(self, expression: str) -> lldb.SBValue:
        """The value of a register, a variable or an expression. The first two are read directly: for an expression LLDB
        maps memory in the process."""
        frame = self.process.GetSelectedThread().GetSelectedFrame()
        if frame.IsValid():
            by_name = frame.FindRegister(expression[1:]) if expression.startswith("$") else None
            value = by_name or frame.GetValueForVariablePath(expression)
            if value.IsValid() and value.GetError().Success():
                return value
        options = lldb.SBExpressionOptions()
        options.SetAllowJIT(False)
        options.SetSuppressPersistentResult(True)
        if frame.IsValid():
            return frame.EvaluateExpression(expression, options)
        return self.target.EvaluateExpression(expression, options)


def _interruptible(read: AnyRead, debugger: lldb.SBDebugger, often: int) -> AnyRead:
    """`read`, raising KeyboardInterrupt after Ctrl-C; asks LLDB at every so many calls (`often`).

    LLDB only records Ctrl-C, and only the thread that runs the command may ask for it (LLDB 17), so that no other
    thread can watch.
    """
    interpreter = debugger.GetCommandInterpreter()
    was_asked = debugger.InterruptRequested if hasattr(debugger, "InterruptRequested") else interpreter.WasInterrupted
    due = cycle([False] * (often - 1) + [True])

    def read_on(*arguments: Any) -> Any:
        if next(due) and was_asked():
            raise KeyboardInterrupt
        return read(*arguments)

    return cast(AnyRead, read_on)


def _register(frame: lldb.SBFrame, name: str) -> Optional[int]:
    register = frame.FindRegister(name)
    return register.GetValueAsUnsigned() if register.IsValid() else None


def _wide_register(frame: lldb.SBFrame, name: str) -> bytes:
    # without AVX the register has only its lower half
    for register in (name, name.replace("ymm", "xmm")):
        value = frame.FindRegister(register)
        data, error = value.GetData(), lldb.SBError()
        read = data.ReadRawData(error, 0, data.GetByteSize()) if value.IsValid() and data.GetByteSize() else b""
        if error.Success() and read:
            return bytes(read)
    return b""


def _machine(triple: str) -> str:
    name, _, rest = triple.partition("-")
    if name.startswith("arm") and name != "arm64":
        return "arm"
    name = MACHINES.get(name, name)
    return "x32" if name == "x86_64" and rest.endswith("x32") else name


def _digits(module: lldb.SBModule) -> str:
    return (module.GetUUIDString() or "").replace("-", "").lower()


def _build_id(module: lldb.SBModule) -> Optional[str]:
    """The build-id; None also if LLDB has a checksum instead."""
    digits = _digits(module)
    return digits if len(digits) >= BUILD_ID_DIGITS else None


def _struct(name: str, kind: lldb.SBType) -> Optional[StructInfo]:
    if not kind.IsValid() or not kind.GetByteSize():
        return None
    kind = kind.GetCanonicalType()
    members = {}
    for index in range(kind.GetNumberOfFields()):
        field = kind.GetFieldAtIndex(index)
        called = field.GetName()
        if called:
            members[called] = FieldPlace(field.GetOffsetInBytes(), field.GetType().GetByteSize())
    return StructInfo(name, kind.GetByteSize(), members) if members else None
