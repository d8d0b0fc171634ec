"""The compiled engine (engine/ in a checkout): its functions and tables, with types. Nothing else knows of ctypes.

A table is a memoryview of the engine's own memory, which stays as long as somebody looks at it. An Engine has what is
known of one image, an EdgeTable the edges of one graph.
"""

from __future__ import annotations

import os
import pkgutil
import shlex
import struct
from array import array
from contextlib import suppress
from functools import cache
from itertools import accumulate, chain
from typing import Any, Callable, Iterable, Iterator, Literal, Mapping, NamedTuple, Optional, Sequence, Union, get_args

from .base import background, optional_libraries
from .base.about import PROGRAM
from .base.errors import NoEngineError
from .base.progress_bar import Meter, Unseen
from .sources.target import ByteOrder, MemoryPiece, Span

with suppress(ImportError):
    import ctypes  # a Python may lack it: then there is no engine

INTERFACE = 2
"""As in engine/src/lib.rs."""
NAME = "libarenascope.so"
BUILT = os.path.join("engine", "target", "release", NAME)
OK, STOPPED, BAD_INPUT, NO_MEMORY = range(4)
WHOLE, ODD, UNREAD = range(3)
HEARTBEAT = 0.05
"""Seconds between two looks at a call that takes long."""
AT_ONCE = 32 << 20
"""A call that looks at less than that is over before anybody could see its progress."""
FEW_STEPS = 1 << 18
FEW_THREADS = 8
NOBODY = -1
MANGLED = ("_Z", "_R")
"""How the names of symbols begin that are not as programmers write them."""
LAST = (1 << 63) - 1
"""No process has memory behind it; a damaged heap may claim it."""

Buffer = Union["array[int]", bytearray, memoryview]


class EngineError(Exception):
    """The engine was asked for something impossible, or has a fault: both are arenascope's own."""


class BadInputError(EngineError):
    """What it was asked is impossible."""


def find_engine() -> str:
    """Returns the file of the engine: in a checkout where it is built, otherwise beside the package, or in the archive
    that the package is in. Raises NoEngineError if there is none, or one that another user could have put there."""
    how = _how_to_get_it()
    if os.environ.get("ARENASCOPE_ENGINE") == "none":
        raise NoEngineError("none by ARENASCOPE_ENGINE", how)
    root = optional_libraries.checkout()
    if root is None and not os.path.isdir(optional_libraries.PACKAGE):
        return os.path.join(os.path.dirname(optional_libraries.PACKAGE), in_archive(os.uname().machine))
    path = os.path.join(root, BUILT) if root else os.path.join(optional_libraries.PACKAGE, NAME)
    try:
        if not os.path.isfile(path):
            raise NoEngineError("not built", how)
        if not optional_libraries.is_believed(path, root or optional_libraries.PACKAGE, os.path.dirname(path)):
            raise NoEngineError(f"another user could have written {path}", how)
    except OSError as error:
        raise NoEngineError(str(error), how) from error
    return path


def in_archive(machine: str) -> str:
    """Returns the name of the engine for such processors in a zipapp, which may have several."""
    return f"{PROGRAM}/engines/{machine}/{NAME}"


def _how_to_get_it() -> str:
    root = optional_libraries.checkout()
    if root is not None:
        return f"make -C {shlex.quote(root)} engine"
    if os.path.isdir(optional_libraries.PACKAGE):
        return "install cargo, then arenascope again"
    return "make zipapp where cargo is"


@cache
def _library() -> Any:
    how = _how_to_get_it()
    try:
        load = ctypes.CDLL
    except NameError:
        raise NoEngineError("this Python has no ctypes", "use one that has it") from None
    path = find_engine()
    try:
        library = _from_file(load, path) if os.path.isfile(path) else _out_of_archive(load, how)
        interface = library.arenascope_interface()
        if interface != INTERFACE:
            raise NoEngineError(f"its interface is {interface}, and {INTERFACE} is needed: {path}", how)
        library.arenascope_close.restype = library.arenascope_graph_close.restype = None
        library.arenascope_types_close.restype = library.arenascope_traced_close.restype = None
        library.arenascope_reading_close.restype = None
    except (OSError, AttributeError) as error:
        raise NoEngineError(f"it cannot be loaded: {error}", how) from error
    return library


def _from_file(load: Callable[[str], Any], path: str) -> Any:
    """Loads it if it is whole, as where a disk was full it may not be: the dynamic linker would end this process by
    SIGBUS. The section headers are an ELF file's last bytes."""
    with open(path, "rb") as file:
        header = file.read(64)
        if header[:5] == b"\x7fELF\x02":
            at, size, count = struct.unpack_from("=Q10xHH", header.ljust(64, b"\0"), 40)
            if os.fstat(file.fileno()).st_size < at + size * count or len(header) < 64:
                raise OSError(f"{path} ends too soon")
    return load(path)


def _out_of_archive(load: Callable[[str], Any], how: str) -> Any:
    """Loads the engine of a zipapp from memory: a file that is unpacked somewhere could be replaced by another user."""
    machine = os.uname().machine
    try:
        content = pkgutil.get_data(PROGRAM, in_archive(machine).partition("/")[2]) or b""
    except OSError:
        raise NoEngineError(f"none for {machine} in this archive", how) from None
    file = os.memfd_create(NAME)
    try:
        with open(file, "wb", closefd=False) as memory:
            memory.write(content)
        return load(f"/proc/self/fd/{file}")
    finally:
        os.close(file)


class EngineFound(NamedTuple):
    """What `version` says of the engine."""

    interface: Optional[int]
    path: Optional[str]
    problem: Optional[str]


def describe() -> EngineFound:
    """Loads the engine, and returns which it is or why there is none."""
    try:
        _library()
        return EngineFound(INTERFACE, find_engine(), None)
    except NoEngineError as error:
        return EngineFound(None, None, f"{error.why} ({error.hint})")


def is_there() -> bool:
    """Tells whether the engine can be used."""
    try:
        return _library() is not None
    except NoEngineError:
        return False


def need_engine() -> None:
    """Raises NoEngineError if there is none."""
    _library()


class _Call:
    """Arguments for one call of the library, kept until it is over."""

    def __init__(self) -> None:
        self._kept = list[Any]()

    def table(self, values: Optional[Buffer], count: Optional[int] = None) -> Any:
        """A table of the caller's; `count` values, if these are longer than an item of the buffer."""
        table = (ctypes.c_uint64 * 2)()
        if values is not None and len(values):
            view = memoryview(values)
            if view.readonly or not view.contiguous:
                view = memoryview(bytearray(view))
            handle = ctypes.c_char.from_buffer(view)
            self._kept += [view, handle]
            table[0], table[1] = ctypes.addressof(handle), len(values) if count is None else count
        return ctypes.byref(table)

    def rows(self, code: str, rows: Sequence[Sequence[int]]) -> Any:
        """A table of rows of several numbers."""
        return self.table(array(code, chain.from_iterable(rows)), len(rows))

    def question(self, question: TypesQuestion) -> tuple[Any, Any]:
        return self.table(question.numbers), self.table(question.text)


class _Handle:
    """Something in the engine, until nobody needs it."""

    def __init__(self, pointer: Any, close: Callable[[Any], None]) -> None:
        self.pointer, self._close = pointer, close

    def __del__(self) -> None:
        self._close(self.pointer)


def _checked(code: int) -> None:
    if code == OK:
        return
    if code == NO_MEMORY:
        raise MemoryError("the engine")
    raise BadInputError("bad input") if code == BAD_INPUT else EngineError(f"code {code}")


class _Given:
    """Tables that a call gives."""

    def __init__(self, count: int) -> None:
        self._tables = (ctypes.c_uint64 * (4 * count))()
        self.argument = ctypes.byref(self._tables)
        """For the call."""

    def view(self, code: str, size: int = 0, at: int = 0) -> memoryview:
        """One of them as numbers; its values have `size` bytes, or those of a number."""
        memory = (ctypes.c_uint64 * 4)(*self._tables[4 * at : 4 * at + 4])
        handle = _Handle(memory, lambda given: _library().arenascope_free(ctypes.byref(given)))
        return _view(handle, memory[0], memory[1] * (size or struct.calcsize(code)), code)

    def rows(self, form: str, at: int = 0) -> Iterator[tuple[Any, ...]]:
        """One of them as rows of numbers; `form` as struct has it."""
        return struct.iter_unpack(f"={form}", self.view("B", struct.calcsize(f"={form}"), at=at))

    def answer(self) -> TypesAnswer:
        return TypesAnswer(self.view("q"), self.view("B", at=1))


def _view(handle: _Handle, address: int, size: int, code: str) -> memoryview:
    """The engine's memory as numbers; a memoryview keeps the array, and the array whose memory it is."""
    if not size:
        return memoryview(array(code))
    memory = (ctypes.c_char * size).from_address(address)
    memory.handle = handle  # type: ignore[attr-defined]
    return memoryview(memory).cast("B").cast(code)  # type: ignore[call-overload,no-any-return]


class _Owned:
    """What has a handle, and calls functions about it."""

    def __init__(self, pointer: Any, close: Callable[[Any], None], stop_if_asked: Callable[[], None]) -> None:
        """`stop_if_asked` raises KeyboardInterrupt after a Ctrl-C that Python does not learn of."""
        self._handle = _Handle(pointer, close)
        self._stop_if_asked = stop_if_asked
        self.lost = 0
        """Bytes that calls could not read, each time they tried."""

    @property
    def pointer(self) -> Any:
        """For calls about something else, too."""
        return self._handle.pointer

    def _call(self, name: str, *arguments: Any) -> None:
        _checked(getattr(_library(), f"arenascope_{name}")(self._handle.pointer, *arguments))

    def _run(
        self, name: str, *arguments: Any, size: int, at_once: int = AT_ONCE, meter: Optional[Meter] = None
    ) -> None:
        """A call of so many bytes or steps, with CONTROL among its arguments. Unless these are fewer than `at_once`,
        Ctrl-C ends it; `meter` shows its progress."""
        control = (ctypes.c_uint64 * 3)()
        given = [ctypes.byref(control) if each is CONTROL else each for each in arguments]
        function = getattr(_library(), f"arenascope_{name}")
        pointer = self._handle.pointer
        if size < at_once:
            code = function(pointer, *given)
            self.lost += control[2]
            _checked(code)
            if meter is not None:
                meter.advance(size)
            return
        work = background.BackgroundWork(lambda: int(function(pointer, *given)))
        shown = 0
        try:
            while not work.is_finished:
                work.wait(HEARTBEAT)
                self._stop_if_asked()
                done = min(control[0], size)
                if meter is not None:
                    meter.advance(done - shown)
                shown = done
        finally:
            # it has ended, or Ctrl-C came: what it works on stays until it has stopped
            control[1] = 1
            _wait(work)
        if meter is not None:
            meter.advance(size - shown)
        self.lost += control[2]
        _checked(work.result())


def _wait(work: background.BackgroundWork[int]) -> None:
    while not work.is_finished:
        with suppress(KeyboardInterrupt):
            work.wait()


Operation = Literal[
    "number",
    "address",
    "size",
    "place",
    "load",
    "add",
    "subtract",
    "multiply",
    "bits",
    "up",
    "down",
    "equal",
    "less",
    "both",
    "either",
    "not",
    "choice",
    "within",
    "first",
    "text",
    "base",
    "remainder",
    "at most",
]
"""What a node of an expression computes of those that it refers to, in the order of the engine's numbers."""
OPERATIONS: Mapping[Operation, int] = {each: number for number, each in enumerate(get_args(Operation))}
CONTROL = object()
"""Stands for the words by which a call's progress is seen and its end is asked for."""


def places_of(value: int, values: Buffer) -> memoryview:
    """Where in some numbers this one stands."""
    call, given = _Call(), _Given(1)
    size = memoryview(values).itemsize
    number = ctypes.c_uint64(value & (1 << 64) - 1)
    _checked(_library().arenascope_equal(call.table(values), size, number, given.argument))
    return given.view("I")


def chosen(whose: Buffer, sharing: Buffer, by_owner: Buffer, by_sharing: Buffer) -> memoryview:
    """A number for each block, all of 32 bits: by its owner, where `sharing` says that this one alone leads to it,
    or by what `sharing` says. See Ownership."""
    call, given = _Call(), _Given(1)
    tables = [call.table(each) for each in (whose, sharing, by_owner, by_sharing)]
    _checked(_library().arenascope_chosen(*tables, given.argument))
    return given.view("i")


def sum_at(values: Buffer, places: Buffer) -> int:
    """The sum of numbers of 64 bits at these places."""
    call, found = _Call(), ctypes.c_uint64()
    _checked(_library().arenascope_sum(call.table(values), call.table(places), ctypes.byref(found)))
    return found.value


def fill(values: Buffer, places: Buffer, value: int) -> None:
    """Puts a value in these places of an array where there is none yet, which is -1."""
    call = _Call()
    _checked(_library().arenascope_fill(call.table(values), call.table(places), value))


JOINS = ("nobody", "sets")
Join = Union[Literal["nobody", "sets"], Sequence[int]]
"""Whose a page is on which two owners have something: nobody's, that of both where owners are sets by their bits, or of
the lowest node that has both below it, where they are nodes of a tree, of each the one above it or NOBODY."""


def demangled(name: str) -> str:
    """Returns the readable name of a symbol of C++ or Rust: of a function with its parameters, and without what it
    returns. Any other name stays as it is, and all of them without an engine."""
    if not name.startswith(MANGLED) or not is_there():
        return name
    call, given = _Call(), _Given(1)
    _checked(_library().arenascope_demangled(call.table(bytearray(name.encode())), given.argument))
    return bytes(given.view("B")).decode()


class ListStart(NamedTuple):
    """A list of free chunks, by its chunks' addresses: as `List` in engine/src/live.rs."""

    bin: int
    """The bin's own address, as a chunk's; 0 for a list that is linked one way."""
    first: int
    last: int
    """A ring's last chunk."""
    least: int
    """The sizes of chunks that belong there."""
    most: int
    limit: int
    """The most chunks that it can have."""
    inside: int = 0
    """How far behind a chunk's address links lead."""


class FollowedList(NamedTuple):
    """The chunks in a list, in order."""

    addresses: array[int]
    sizes: array[int]


class FollowedLists(NamedTuple):
    """Lists that were followed to their ends, by what they were asked by."""

    whole: Mapping[int, FollowedList] = {}
    odd: frozenset[int] = frozenset()
    """Those with a word that is not as it must be."""
    unread: frozenset[int] = frozenset()
    """Those that were not followed, as the call was ended."""
    ended: Optional[KeyboardInterrupt] = None
    """What ended it."""


Numbers = tuple[int, ...]


class HolderGround(NamedTuple):
    """Where containers are looked for: see `Ground` in container_bodies.rs."""

    flags: array[int]
    """Of each kind."""
    fronts: array[int]
    mapped: array[int]
    fixed: array[int]
    """(start, bytes, whether it is a stack)."""
    known: array[int]
    """(start, bytes, kind)."""
    code: Sequence[Span]
    rules: Sequence[int]
    """low, high, skew, mask, the program."""


class StrengthGround(NamedTuple):
    """What tells how sure a pointer to the inside of a block is: see pointer_strength.rs."""

    constants: array[int]
    """(start, end, 1 for code and 2 for what the image lacks) of mappings of files, in order."""
    fronts: array[int]
    """(bytes, whether it holds pieces) of what a program has in front of each block; empty: nothing."""

    def tables(self, call: _Call) -> tuple[Any, Any]:
        return call.table(self.constants, len(self.constants) // 3), call.table(self.fronts, len(self.fronts) // 2)


class Reached(NamedTuple):
    """Blocks that pointers to their inside lead to."""

    inside: memoryview
    alike: memoryview
    """Those at an offset that is the same for most blocks of their size."""


class FoundBodies(NamedTuple):
    """Blocks that containers hold, as kinds from the first number on that was not given."""

    kinds: Sequence[Numbers]
    """(form, whether it is certain, owner)."""
    names: Sequence[Numbers]
    """(of, part, number): a variable, or a part of what another name is for."""
    plain: Sequence[Numbers]
    """(where it leads, where it lies, where its holder begins, the holder's kind) of each pointer that is in
    no container."""
    objects: memoryview
    """How many objects of each kind were looked through."""
    asked: memoryview
    """The managers of which nothing was known."""
    ended: Optional[KeyboardInterrupt]
    """What ended it."""


class EngineImage(_Owned):
    """What the engine knows of one image: its memory, its live blocks, which words can hold no pointers."""

    def __init__(self, word: int, byte_order: ByteOrder, stop_if_asked: Callable[[], None] = lambda: None) -> None:
        library = _library()
        pointer = ctypes.c_void_p()
        _checked(library.arenascope_open(word, byte_order == "big", ctypes.byref(pointer)))
        super().__init__(pointer, library.arenascope_close, stop_if_asked)
        self._word, self._byte_order = word, byte_order
        self._kept: list[object] = []
        self._pieces: Sequence[MemoryPiece] = ()

    def let_go(self) -> None:
        """Forgets the image's memory; tables that were made stay."""
        self.set_memory(())

    def set_memory(self, pieces: Iterable[MemoryPiece]) -> None:
        """The image's bytes, in place of those before. Buffers must be writable, though nobody writes them, and are
        kept; files must stay open as long as the image is looked through."""
        kept, rows, own = list[object](), array("Q"), list[MemoryPiece]()
        for each in pieces:
            address, file = 0, -1
            own.append(each)
            if each.data is not None:
                data = memoryview(bytearray(each.data)) if each.data.readonly else each.data
                own[-1] = each._replace(data=data)
                handle = ctypes.c_char.from_buffer(data)
                kept += [data, handle]
                address = ctypes.addressof(handle)
            else:
                file = each.file
            rows.extend((each.address, each.bytes, address, file & (1 << 64) - 1, each.offset))
        call = _Call()
        self._call("pieces", call.table(rows, len(rows) // 5))
        self._kept, self._pieces = kept, own

    def beside(self, starts: Buffer, ends: Buffer, sizes: Buffer) -> EngineImage:
        """The same memory with other blocks: see `set_blocks`."""
        other = EngineImage(self._word, self._byte_order, self._stop_if_asked)
        other.set_memory(self._pieces)
        other.set_blocks(starts, ends, sizes)
        return other

    def bytes_in(self, spans: Sequence[Span]) -> int:
        """How many bytes of these the image has."""
        call, size = _Call(), ctypes.c_uint64()
        self._call("bytes", call.rows("Q", spans), ctypes.byref(size))
        return size.value

    def set_blocks(self, starts: Buffer, ends: Buffer, sizes: Buffer) -> None:
        """The live blocks in order, as arrays of 64 bits; what was said of words is forgotten."""
        call = _Call()
        self._call("blocks", call.table(starts), call.table(ends), call.table(sizes))

    def sweep(
        self, stretches: Sequence[Stretch], least: int, header: int, listed: Buffer, fast: Buffer, meter: Meter
    ) -> tuple[Iterator[tuple[int, int]], list[Stopped]]:
        """Sweeps parts of heaps; the blocks wait for `make_blocks`. Returns what else is not free, as ranges, and where
        each sweep stopped. `least` and `header` are bytes of the smallest chunk, and from a chunk to what malloc
        returned; `listed` are the chunks that look used and are not, in order, `fast` has a 1 for those in fastbins."""
        call, given = _Call(), _Given(2)
        tables = (call.rows("Q", stretches), least, header, call.table(listed), call.table(fast))
        size = sum(each.limit - each.start for each in stretches)
        self._run("sweep", *tables, background.processors(), CONTROL, given.argument, meter=meter, size=size)
        besides = given.rows("QQ")
        return besides, [Stopped(*each) for each in given.rows("3Q", at=1)]

    def follow(
        self, pid: int, starts: Mapping[int, ListStart], rules: tuple[int, int, bool, int], meter: Meter, size: int
    ) -> FollowedLists:
        """Follows lists of free chunks in the memory of a process, or in the image's if `pid` is 0. `rules`: bytes from
        a chunk to what malloc returned, the mask of its alignment, whether links of lists that are linked one way are
        protected, and the most chunks of all lists together; `size`: bytes of the heaps."""
        call, given = _Call(), _Given(3)
        layout = (ctypes.c_uint64 * 4)(*rules)
        threads = background.processors() if size >= AT_ONCE else 1
        ended = None
        table = call.rows("Q", [*starts.values()])
        arguments = (pid, table, ctypes.byref(layout), threads, CONTROL, given.argument)
        try:
            self._run("follow", *arguments, meter=meter, size=size)
        except KeyboardInterrupt as interrupt:
            ended = interrupt
        followed = list(given.rows("QQ"))
        chunks, sizes = (given.view("Q", at=at).cast("B") for at in (1, 2))
        whole = {}
        for head, end, (number, state) in zip(starts, accumulate(number for number, _ in followed), followed):
            if state == WHOLE:
                whole[head] = FollowedList(array("Q"), array("Q"))
                for part, every in zip(whole[head], (chunks, sizes)):
                    part.frombytes(every[8 * (end - number) : 8 * end])
        states = {head: state for head, (_, state) in zip(starts, followed)}
        odd, unread = (frozenset(head for head in states if states[head] == state) for state in (ODD, UNREAD))
        return FollowedLists(whole, odd, unread, ended)

    def chunks_from(self, start: int, until: int, limit: int, least: int, watched: Buffer) -> FollowedChunks:
        """Follows size words, as long as chunks begin in front of `until`, and with a whole word in front of `limit`;
        no more than some 100,000. `watched` are chunks in order."""
        self._stop_if_asked()
        call, given, ended = _Call(), _Given(4), (ctypes.c_uint64 * 2)()
        numbers = [ctypes.c_uint64(min(each, LAST)) for each in (start, until, limit)]
        self._call("chunks", *numbers, least, call.table(watched), given.argument, ctypes.byref(ended))
        return FollowedChunks(
            given.view("Q"),
            dict(given.rows("QQ", at=1)),
            given.view("B", 24, at=2).cast("Q"),
            [*given.rows("QQ", at=3)],
            end=ended[0],
            broken=bool(ended[1]),
        )

    def make_room(self, parts: Sequence[tuple[int, int, int]]) -> None:
        """Has pages made for what will be copied: (address, bytes, where to) each."""
        call = _Call()
        table = call.rows("Q", parts)
        size = sum(size for _, size, _ in parts)
        self._run("room", table, background.processors(), CONTROL, meter=Unseen(), size=size)

    def copy(self, tid: int, memory: int, parts: Sequence[tuple[int, int, int]]) -> Sequence[tuple[int, ...]]:
        """Copies parts of a process, and returns those that could not be read. `memory`: its /proc/PID/mem, open.
        ProcessLookupError if nothing can be read of it any more."""
        call, given = _Call(), _Given(1)
        table = call.rows("Q", parts)
        size = sum(size for _, size, _ in parts)
        arguments = (tid, memory, table, background.processors(), CONTROL, given.argument)
        try:
            self._run("copy", *arguments, meter=Unseen(), size=size)
        except BadInputError:
            raise ProcessLookupError(tid) from None
        return list(given.rows("3Q"))

    def make_blocks(self, others: Sequence[tuple[int, int, int]], beyond: int) -> int:
        """Makes the table of live blocks, of all sweeps and of (start, last address, size) of `others`; the others'
        ends are `beyond` behind their starts and sizes. Returns how many were left out, as another one lies there."""
        call, twice = _Call(), ctypes.c_uint64()
        arguments = (call.rows("Q", others), ctypes.c_int64(beyond), CONTROL, ctypes.byref(twice))
        self._run("swept", *arguments, size=AT_ONCE)
        return twice.value

    def blocks(self) -> tuple[memoryview, memoryview, memoryview]:
        """Starts, last addresses and sizes of the live blocks, in order. They are made once."""
        tables = (ctypes.c_uint64 * 6)()
        self._call("tables", ctypes.byref(tables))
        starts, ends, sizes = (_view(self._handle, tables[at], 8 * tables[at + 1], "Q") for at in (0, 2, 4))
        return starts, ends, sizes

    def exclude(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        """Words of these ranges, (start, end, why), hold no pointers; in place of the ranges before."""
        call = _Call()
        self._call("exclude", call.rows("Q", ranges))

    def declare(self, starts: Buffer, used: Buffer, may: Buffer, begins: int, why: int, beyond: int) -> None:
        """Says of the blocks that begin at `starts` which words can hold pointers: those of which `may` has a 1, which
        comes again behind its last word, from `begins` on; `why` and `beyond` are said of the others, in the first
        `used` bytes (of each, of all or, if it is empty, all of a block) and behind."""
        call = _Call()
        tables = (call.table(starts), call.table(used), call.table(may))
        self._call("declare", *tables, ctypes.c_uint64(begins), why, beyond)

    def why(self, address: int, block: int, odd: int) -> int:
        """Why the word there, in a block or NOBODY's, holds no pointer; 0 if it may."""
        said = ctypes.c_uint32()
        self._call("why", ctypes.c_uint64(address), ctypes.c_int64(block), odd, ctypes.byref(said))
        return said.value

    def pages(
        self,
        heaps: Sequence[Span],
        present: Sequence[Span],
        besides: Sequence[Span],
        whose: Buffer,
        owners: int,
        rules: tuple[int, int, int],
        join: Join,
    ) -> tuple[memoryview, memoryview]:
        """By owners' numbers: what of an owner's blocks is in memory, and what would leave it with them. `present` is
        what of the heaps is in memory, `besides` what else in them is not free, both in order; `whose` has each block's
        owner, less than `owners`, or NOBODY; `rules` are bytes of a page, of a free chunk that stay, and from a chunk
        to what malloc returned."""
        call, given = _Call(), _Given(2)
        above = array("i") if isinstance(join, str) else array("i", join)
        tables = [call.rows("Q", each) for each in (heaps, present, besides)]
        numbers = (call.table(whose), ctypes.c_uint64(owners), ctypes.byref((ctypes.c_uint64 * 3)(*rules)))
        which = JOINS.index(join) if isinstance(join, str) else len(JOINS)
        arguments = (*tables, *numbers, which, call.table(above), CONTROL, given.argument)
        self._run("pages", *arguments, size=self.count, at_once=FEW_STEPS)
        return given.view("Q"), given.view("Q", at=1)

    def pointers(self, spans: Sequence[Span], meter: Meter) -> Iterator[tuple[int, int, int, int]]:
        """(address, value, edge, which of the spans) of each pointer to a block, in order."""
        call, given = _Call(), _Given(1)
        arguments = (call.rows("Q", spans), background.processors(), CONTROL, given.argument)
        self._run("pointers", *arguments, meter=meter, size=self.bytes_in(spans))
        return given.rows("QQII")

    def reach(self, table: EdgeTable, ground: StrengthGround, seeds: Buffer, marks: bytearray, mark: int) -> Reached:
        """Marks the blocks to whose inside pointers lead that are as good as those to the start, and what hangs on
        them. `seeds` are (block, value, where it lies or 0) of roots' pointers to the inside."""
        call, given = _Call(), _Given(2)
        tables = (*ground.tables(call), call.table(seeds, len(seeds) // 3), call.table(marks), mark)
        self._run("reach", table.pointer, *tables, background.processors(), CONTROL, given.argument, size=1, at_once=1)
        return Reached(given.view("I"), given.view("I", at=1))

    def is_definite(self, ground: StrengthGround, block: int, value: int, at: int) -> bool:
        """Whether a pointer to a block is as good as one to its start. `at`: where it lies, if it may be a link; 0."""
        call, given = _Call(), _Given(1)
        self._call("judge", *ground.tables(call), call.table(array("Q", (block, value, at)), 1), given.argument)
        return bool(given.view("B")[0])

    def contents(self, low: int, high: int, data: Sequence[Span], told: Buffer, meter: Meter) -> memoryview:
        """What each block holds of which nothing is `told`, which is -1, as in CONTENTS. Heaps lie from `low` to in
        front of `high`; `data` is what can be written to, in order."""
        call, given = _Call(), _Given(1)
        arguments = (
            ctypes.c_uint64(low),
            ctypes.c_uint64(high),
            call.rows("Q", data),
            call.table(told),
            background.processors(),
            CONTROL,
            given.argument,
        )
        self._run("contents", *arguments, meter=meter, size=self.count, at_once=FEW_STEPS)
        return given.view("B")

    def bodies(self, kinds: array[int], ground: HolderGround, managers: Mapping[int, int], meter: Meter) -> FoundBodies:
        """Names blocks by the containers that hold them: `kinds`, which has a number for each block, gets new ones.
        `managers`: what symbols say of functions. All numbers are those of container_bodies.rs."""
        call, given = _Call(), _Given(5)
        tables = [call.table(each) for each in (kinds, ground.flags, ground.fronts, ground.mapped)]
        tables += [call.table(each, len(each) // 3) for each in (ground.fixed, ground.known)]
        tables += [call.rows("Q", ground.code), call.rows("Q", sorted(managers.items()))]
        tables.append(ctypes.byref((ctypes.c_uint64 * len(ground.rules))(*ground.rules)))
        ended = None
        try:
            self._run("bodies", *tables, CONTROL, given.argument, size=self.count, meter=meter, at_once=FEW_STEPS)
        except KeyboardInterrupt as interrupt:
            ended = interrupt
        found_kinds, names, plain = (list(given.rows(form, at)) for at, form in enumerate(("3Q", "3Q", "4Q")))
        return FoundBodies(found_kinds, names, plain, given.view("Q", at=3), given.view("Q", at=4), ended)

    def beginning_with(self, ranges: Sequence[Span], meter: Meter) -> Iterator[tuple[int, int, int]]:
        """(word, block, step) of the blocks whose first word lies in one of these, which are in order. `step` is how
        far it is from one place where that word stands in the block to the next, if these are equal; else 0."""
        call, given = _Call(), _Given(1)
        arguments = (call.rows("Q", ranges), background.processors(), CONTROL, given.argument)
        self._run("beginning_with", *arguments, meter=meter, size=self.count, at_once=FEW_STEPS)
        return given.rows("QII")

    def select(
        self,
        nodes: Sequence[tuple[Operation, Sequence[int], int]],
        ranges: Sequence[Span],
        places: Optional[tuple[Buffer, Buffer, Buffer]],
        among: Optional[Buffer],
        code: str,
    ) -> memoryview:
        """Computes an expression, whose nodes are (what, the numbers of those that it refers to, a number), of all
        blocks or of those `among` them; or of `places`, each with a number and a base. Returns its values (`code` Q),
        or the numbers of those where it is not 0 (I). `ranges` has those of each node that has any, of which its
        number tells where they begin, in the upper half, and how many."""
        rows = bytearray().join(
            struct.pack("=4IQ", OPERATIONS[what], *operands, *(0, 0, 0)[len(operands) :], number)
            for what, operands, number in nodes
        )
        call, given = _Call(), _Given(1)
        tables = [call.table(rows, len(nodes)), call.rows("Q", ranges)]
        tables += [call.table(each) for each in (*(places or (None, None, None)), among)]
        count = len(among) if among is not None else self.count if places is None else len(places[0])
        arguments = (*tables, code == "Q", background.processors(), CONTROL, given.argument)
        self._run("select", *arguments, size=count, at_once=FEW_STEPS)
        return given.view(code)

    def grouped(self, numbers: Optional[Buffer], values: Buffer) -> Iterator[tuple[int, memoryview]]:
        """(value, the numbers that have it) of each of the values, in their order. Without numbers they are the places
        of the values that are not 0."""
        call, given = _Call(), _Given(3)
        tables = (call.table(numbers), call.table(values))
        self._run("grouped", *tables, CONTROL, given.argument, size=len(values), at_once=FEW_STEPS)
        found, start = given.view("I"), 0
        for value, end in zip(given.view("Q", at=1), given.view("I", at=2)):
            yield value, found[start:end]
            start = end

    def stretches(self, kinds: Buffer, ranges: Buffer, least: int) -> Iterator[tuple[int, Sequence[tuple[int, int]]]]:
        """Of each range of blocks' numbers, two of 32 bits in `ranges`: the bytes of all of its blocks, and where
        neighbours of one kind begin in it: (the first one's number, its kind). Those between the first and the last
        ones that are smaller than `least` bytes are, with neighbours that are so too, of no kind: -1."""
        call, given = _Call(), _Given(3)
        tables = (call.table(kinds), call.table(ranges, len(ranges) // 2))
        self._run("stretches", *tables, ctypes.c_uint64(least), CONTROL, given.argument, size=len(kinds))
        rows, start = given.view("i", 8), 0
        for end, size in zip(given.view("I", at=1), given.view("Q", at=2)):
            yield size, [*zip(rows[2 * start : 2 * end : 2], rows[2 * start + 1 : 2 * end : 2])]
            start = end

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self.blocks()[0])

    def edges(self, spans: Sequence[Span], odd: int, meter: Meter) -> tuple[EdgeTable, StaleRows]:
        """The edges of all blocks, which lie in `spans`, and those of them that words have which hold no pointers;
        `odd` is what is said of low numbers."""
        call, pointer, given = _Call(), ctypes.c_void_p(), _Given(1)
        arguments = (
            call.rows("Q", spans),
            odd,
            background.processors(),
            CONTROL,
            ctypes.byref(pointer),
            given.argument,
        )
        self._run("edges", *arguments, meter=meter, size=self.bytes_in(spans))
        rows = given.view("B", 24)
        whole, halves, signed = rows.cast("Q"), rows.cast("I"), rows.cast("i")
        stale = StaleRows(whole[::3], signed[2::6], halves[3::6], halves[4::6], halves[5::6])
        return EdgeTable(pointer, self._stop_if_asked), stale

    def encoded(self, suspects: Buffer, spans: Sequence[Span], meter: Meter) -> Iterator[EncodedRow]:
        """Encoded pointers to these blocks, in order of the spans."""
        call = _Call()
        return self._encoded("encoded", call.table(suspects), call.rows("Q", spans), meter=meter, spans=spans)

    def encoded_to(self, goal: Span, spans: Sequence[Span], meter: Meter) -> Iterator[EncodedRow]:
        """The same to a range, its end included."""
        call = _Call()
        ends = (ctypes.c_uint64(goal.start), ctypes.c_uint64(goal.end))
        return self._encoded("encoded_to", *ends, call.rows("Q", spans), meter=meter, spans=spans)

    def _encoded(self, name: str, *arguments: Any, meter: Meter, spans: Sequence[Span]) -> Iterator[EncodedRow]:
        given = _Given(1)
        size = self.bytes_in(spans)
        self._run(name, *arguments, background.processors(), CONTROL, given.argument, meter=meter, size=size)
        return map(EncodedRow._make, given.rows("QQiIIII4x"))

    def words_into(self, goal: Span, spans: Sequence[Span], meter: Meter) -> Iterator[tuple[int, int]]:
        """(address, value) of each word that leads into a range, its end included."""
        call, given, goals = _Call(), _Given(1), (ctypes.c_uint64(goal.start), ctypes.c_uint64(goal.end))
        arguments = (*goals, call.rows("Q", spans), background.processors(), CONTROL, given.argument)
        self._run("search", *arguments, meter=meter, size=self.bytes_in(spans))
        return given.rows("QQ")


class Stretch(NamedTuple):
    """Part of a heap, from a chunk to where the last one ends."""

    start: int
    limit: int
    end: int
    """The heap's."""
    wrong: int
    """Bits that no size word of this heap has."""
    main: int
    """1: it is the main arena's."""


class FollowedChunks(NamedTuple):
    """Adjacent chunks."""

    raws: memoryview
    """Their size words."""
    counts: dict[int, int]
    """How many have each size word."""
    free: memoryview
    """Three numbers for the end of each free chunk: which size word stands there, its address, and the word in front of
    it."""
    marks: list[tuple[int, int]]
    """(index, address) of those that were watched for."""
    end: int
    broken: bool
    """The word at the end is no chunk's, or cannot be read."""


NO_CHUNK, UNREADABLE, WRONG_FLAGS, TOO_LONG = range(1, 5)


class Stopped(NamedTuple):
    """Where a sweep stopped."""

    position: int
    reason: int
    """0 at the limit; else what is wrong with the size word: see above."""
    raw: int
    """The size word there, where it can be read."""


class StaleRows(NamedTuple):
    """Edges from words that hold no pointers, in order of these: parallel arrays."""

    addresses: Sequence[int] = ()
    """Where each word lies."""
    sources: Sequence[int] = ()
    """The block that it lies in, or NOBODY."""
    edges: Sequence[int] = ()
    whys: Sequence[int] = ()
    """What was said of it."""
    sure: Sequence[int] = ()
    """How sure that is."""


CONTENTS = (
    "",
    "zeros",
    "begins with zeros",
    "ASCII",
    "UTF-8",
    "UTF-16",
    "UTF-32",
    "tree node",
    "list node",
    "linked pages",
    "pointers",
)
"""The kinds of contents, by their numbers; the first is none of the others."""
ENCODINGS = ("tagged", "shifted", "unaligned", "relative")
"""How a pointer may be written other than plainly, in the order of engine/src/encoded.rs."""


class EncodedRow(NamedTuple):
    """An encoded pointer."""

    address: int
    value: int
    """Where it leads."""
    source: int
    """The block that it lies in, or NOBODY."""
    target: int
    encoding: int
    """As in ENCODINGS."""
    flags: int
    span: int
    """Which of the spans it lies in."""

    @property
    def is_inside(self) -> bool:
        """Whether it leads past the block's start."""
        return bool(self.flags & 1)

    @property
    def is_plain(self) -> bool:
        """Whether the word leads there without decoding, too."""
        return bool(self.flags & 2)


class Lumps:
    """Blocks that hang together: each lump is a block that nothing of the others leads to, or the first of a cycle of
    which that is so, with all that hangs on it. In order of their heads. A program that leaks loses millions of blocks,
    most of them alone: these take four bytes each."""

    def __init__(
        self,
        heads: Sequence[int],
        leading: Sequence[int],
        ends: Sequence[int],
        others: Sequence[int],
        way_ends: Sequence[int],
        ways: Sequence[int],
    ) -> None:
        self.heads = heads
        self._leading, self._ends, self._others = leading, ends, others
        self._way_ends, self._ways = way_ends, ways

    def __len__(self) -> int:
        return len(self.heads)

    def hanging(self) -> Iterator[tuple[int, Sequence[int]]]:
        """Of those of more than one block the head, and all that hangs on it, and on no head before it; of a cycle the
        rest as well."""
        begin = 0
        for head, end in zip(self._leading, self._ends):
            yield head, self._others[begin:end]
            begin = end

    def ways_round(self) -> Iterator[Sequence[int]]:
        """Of each cycle the shortest way round from its head on; of a long one only its begin."""
        begin = 0
        for end in self._way_ends:
            yield self._ways[begin:end]
            begin = end

    def blocks(self) -> array[int]:
        return array("I", self.heads) + array("I", self._others)


class EdgeTable(_Owned):
    """The edges of all blocks: `edges[offsets[n]:offsets[n + 1]]` are the nth block's, in the order of its words."""

    def __init__(self, pointer: Any, stop_if_asked: Callable[[], None]) -> None:
        super().__init__(pointer, _library().arenascope_graph_close, stop_if_asked)
        self.offsets, self.edges = self._tables()

    @classmethod
    def of(cls, offsets: Buffer, edges: Buffer) -> EdgeTable:
        """Of arrays of 32 bits."""
        call, pointer = _Call(), ctypes.c_void_p()
        _checked(_library().arenascope_graph(call.table(offsets), call.table(edges), ctypes.byref(pointer)))
        return cls(pointer, lambda: None)

    def _tables(self) -> tuple[memoryview, memoryview]:
        tables = (ctypes.c_uint64 * 4)()
        self._call("graph_tables", ctypes.byref(tables))
        return _view(self._handle, tables[0], 4 * tables[1], "I"), _view(self._handle, tables[2], 4 * tables[3], "I")

    def with_edges(self, further: Sequence[tuple[int, int]]) -> EdgeTable:
        """The same with more, (block, edge), behind the others of their blocks."""
        call = _Call()
        return self._other("graph_with", call.rows("I", further))

    def without(self, fewer: Sequence[tuple[int, int]]) -> EdgeTable:
        """The same without these, (block, edge), each as often as it is given."""
        call = _Call()
        return self._other("graph_without", call.rows("I", fewer))

    def lasting(self, passing: bytearray) -> EdgeTable:
        """The same without stale edges, and without those from blocks that pass sooner than what they lead to:
        `passing` tells of each how much worse those are that hold it."""
        return self._other("graph_lasting", _Call().table(passing))

    def _other(self, name: str, table: Any) -> EdgeTable:
        pointer = ctypes.c_void_p()
        self._follow(name, table, CONTROL, ctypes.byref(pointer))
        return EdgeTable(pointer, self._stop_if_asked)

    def _follow(self, name: str, *arguments: Any, meter: Optional[Meter] = None) -> None:
        """A call that looks at all blocks and edges, with CONTROL among its arguments."""
        self._run(name, *arguments, size=2 * len(self.offsets), at_once=FEW_STEPS, meter=meter)

    def deepen(self, targets: Buffer) -> None:
        """From now on edges to these blocks count as such to their insides."""
        call = _Call()
        self._follow("graph_deepen", call.table(targets), CONTROL)

    def mark(
        self,
        first: Iterable[int],
        marks: bytearray,
        mark: int,
        starts_only: bool = False,
        parents: Optional[Buffer] = None,
    ) -> memoryview:
        """Marks these and what hangs on them, all that had less; returns these in the order in which they were met.
        `parents`, where it is given, learns by which block each was met."""
        call, given = _Call(), _Given(1)
        tables = (call.table(array("I", first)), call.table(marks), mark, starts_only, call.table(parents))
        self._follow("graph_mark", *tables, CONTROL, given.argument)
        return given.view("I")

    def lumps(self, nodes: Buffer, starts_only: bool = False) -> Lumps:
        """Every one of these blocks, which are in order, in one lump. With `starts_only` pointers to insides do not
        count."""
        call, given = _Call(), _Given(6)
        self._follow("graph_groups", call.table(nodes), starts_only, CONTROL, given.argument)
        return Lumps(*(given.view(code, at=at) for at, code in enumerate("IIQIQI")))

    def hold(self, leads: Buffer, skipped: int, whose: Buffer, parents: Buffer, ties: Buffer, ranks: Buffer) -> None:
        """Finds the main holders of what nobody holds yet. `leads` are rows of (rank, owner, edge, the block that has
        it or NOBODY); edges with the bits `skipped` are not followed; the other arrays have a value for each block."""
        call = _Call()
        tables = [call.table(each) for each in (whose, parents, ties, ranks)]
        self._follow("graph_hold", call.table(leads, len(leads) // 4), skipped, *tables, CONTROL)

    def below(self, parents: Buffer, sizes: Buffer) -> memoryview:
        """Of each block its bytes and those of all that it leads to by these ways: `parents` has the block before each
        of them, or NOBODY."""
        call, given = _Call(), _Given(1)
        self._follow("graph_below", call.table(parents), call.table(sizes), CONTROL, given.argument)
        return given.view("Q")

    def costs(self, above: Buffer, kinds: Buffer, sizes: Buffer) -> memoryview:
        """Returns the bytes of each block with all below it, down to the next block of its kind on each way: `above`
        has the block above each, or NOBODY, and `kinds` the number of its kind."""
        call, given = _Call(), _Given(1)
        tables = [call.table(each) for each in (above, kinds, sizes)]
        self._follow("graph_costs", *tables, CONTROL, given.argument)
        return given.view("Q")

    def dominators(self, offsets: Buffer, held: Buffer, meter: Meter) -> tuple[memoryview, memoryview]:
        """Of node 0, which leads to one node for each owner, which leads to its blocks, whose nodes come after the
        owners': what can be reached, in the order in which it is met, and of each the place in that order of the last
        one that every way leads through. `held[offsets[n]:offsets[n + 1]]` are the nth owner's."""
        call, given = _Call(), _Given(2)
        tables = (call.table(offsets), call.table(held), CONTROL, given.argument)
        self._follow("graph_dominators", *tables, meter=meter)
        return given.view("I"), given.view("I", at=1)

    def ownership(
        self, offsets: Buffer, held: Buffer, sizes: Buffer, whose: Buffer, ties: Buffer, meter: Meter
    ) -> Ownership:
        """What each owner holds; `whose` and `ties` have each block's main holder and another who does as well, or
        NOBODY."""
        call, given = _Call(), _Given(8)
        tree = self.dominators(offsets, held, meter)
        tables = [call.table(each) for each in (*tree, offsets, held, sizes, whose, ties)]
        self._follow("graph_ownership", *tables, CONTROL, given.argument)
        steps, others = [*map(HeldStep._make, given.rows("3Q", at=4))], given.view("I", at=5)
        rows = list[OwnedSums]()
        for *sums, step, step_count, other, other_count, whole, as_good in given.rows("11Q", at=3):
            way = steps[step : step + step_count]
            rows.append(
                OwnedSums._make((*sums, way, others[other : other + other_count].tolist(), bool(whole), as_good))
            )
        joint_owners = given.view("I", at=7)
        jointly = [
            (joint_owners[first : first + count].tolist(), size) for size, first, count in given.rows("3Q", at=6)
        ]
        return Ownership(given.view("i"), given.view("i", at=1), given.view("B", at=2), rows, jointly)


class HeldStep(NamedTuple):
    """A block on the way from an owner to where what it holds spreads."""

    block: int
    blocks: int
    """How many blocks it holds, itself among them."""
    bytes: int


class OwnedSums(NamedTuple):
    """What an owner is the main holder of."""

    blocks: int
    bytes: int
    alone_blocks: int
    """Blocks that nobody else leads to."""
    alone_bytes: int
    tied_bytes: int
    """Bytes that another owner leads to in as few steps."""
    steps: Sequence[HeldStep]
    others: Sequence[int]
    """Other owners of what it does not hold alone, those that lead to most of it first."""
    whole: bool
    """There are no more than these."""
    as_good: int
    """So many of the first of them lead to nearly all that it holds."""


class Ownership(NamedTuple):
    """Who holds what."""

    whose: memoryview
    """Of each block: its owner's number; the number of all owners, which is the last row's, where nobody leads to it.
    (What hold() answers has NOBODY there.)"""
    above: Sequence[int]
    """The block that alone leads to it, or NOBODY."""
    sharing: memoryview
    """Who leads to each block: several (0), its owner alone (1), or from 2 on the first, second … group of joint
    owners."""
    rows: Sequence[OwnedSums]
    jointly: Sequence[tuple[Sequence[int], int]]
    """Groups of owners that lead to most together, and the bytes that nobody else leads to; the largest first."""


class TypesQuestion:
    """What the engine is asked about debug information: numbers, and text whose lengths are among them."""

    def __init__(self) -> None:
        self.numbers = array("q")
        self.text = bytearray()

    def put(self, *numbers: Optional[int]) -> None:
        """Adds numbers, or addresses of 64 bits; None stands for none."""
        for each in numbers:
            number = NOTHING if each is None else each
            self.numbers.append(number - (1 << 64) if number >= 1 << 63 else number)

    def put_list(self, numbers: Sequence[int]) -> None:
        """Adds numbers, and in front of them how many there are."""
        self.put(len(numbers), *numbers)

    def string(self, text: Union[str, bytes]) -> None:
        data = text.encode("utf-8", "replace") if isinstance(text, str) else text
        self.put(len(data))
        self.text += data

    def strings(self, texts: Sequence[bytes]) -> None:
        self.put(len(texts))
        for each in texts:
            self.string(each)


NOTHING = -(1 << 63)
"""A number in such questions and answers that is none."""


class TypesAnswer:
    """What the engine answers: each method reads what comes next."""

    def __init__(self, numbers: memoryview, text: memoryview) -> None:
        self._numbers, self._text = numbers.tolist(), text
        self._at = self._from = 0

    @property
    def has_more(self) -> bool:
        return self._at < len(self._numbers)

    def number(self) -> int:
        self._at += 1
        found: int = self._numbers[self._at - 1]
        return found

    def option(self) -> Optional[int]:
        found = self.number()
        return None if found == NOTHING else found

    def size(self) -> int:
        return self.number() & (1 << 64) - 1

    def address(self) -> Optional[int]:
        found = self.option()
        return None if found is None else found & (1 << 64) - 1

    def float(self) -> float:
        found: float = struct.unpack("=d", struct.pack("=q", self.number()))[0]
        return found

    def string(self) -> str:
        return (self.data() or b"").decode("utf-8", "replace")

    def data(self) -> Optional[bytes]:
        start, size = self._from, self.option()
        self._from += size or 0
        return None if size is None else bytes(self._text[start : self._from])


class EngineTypes(_Owned):
    """Types and variables of a program, from the debug information in files of its modules."""

    def __init__(self, modules: TypesQuestion, size: int, stop_if_asked: Callable[[], None] = lambda: None) -> None:
        """`modules` as arenascope_types_read has them; `size`: about how many bytes of debug information there are."""
        library = _library()
        pointer = ctypes.c_void_p()
        _checked(library.arenascope_types_open(ctypes.byref(pointer)))
        super().__init__(pointer, library.arenascope_types_close, stop_if_asked)
        call = _Call()
        self._run("types_read", *call.question(modules), CONTROL, size=size)

    def ask(self, kind: str, *about: Union[int, str, TypesQuestion]) -> TypesAnswer:
        """Asks arenascope_types_KIND: numbers are of 64 bits, texts and questions tables."""
        call, given = _Call(), _Given(2)
        words: list[Any] = []
        for each in about:
            if isinstance(each, TypesQuestion):
                words += call.question(each)
            elif isinstance(each, str):
                words.append(call.table(bytearray(each.encode("utf-8", "replace"))))
            else:
                words.append(ctypes.c_uint64(each & (1 << 64) - 1))
        self._call(f"types_{kind}", *words, given.argument)
        return given.answer()

    def locals(self, image: EngineImage, stacks: TypesQuestion, threads: int) -> TypesAnswer:
        """The variables of threads' frames, whose stacks are in the image, as arenascope_types_locals has them."""
        call, given = _Call(), _Given(2)
        arguments = (image.pointer, *call.question(stacks), CONTROL, given.argument)
        self._run("types_locals", *arguments, size=threads, at_once=FEW_THREADS)
        return given.answer()


class TracedBlocks(_Owned):
    """What live blocks are by types, as `Traced` in engine/src/types/tracer has it."""

    def __init__(
        self,
        image: EngineImage,
        types: EngineTypes,
        question: TypesQuestion,
        size: int,
        meter: Meter,
        stop_if_asked: Callable[[], None] = lambda: None,
    ) -> None:
        """`question` as arenascope_trace has it; `size`: bytes of all blocks."""
        pointer, call = ctypes.c_void_p(), _Call()
        arguments = types.pointer, *call.question(question), CONTROL, ctypes.byref(pointer)
        image._run("trace", *arguments, size=size, meter=meter)
        super().__init__(pointer, _library().arenascope_traced_close, stop_if_asked)
        self.image, self.types = image, types
        given = (ctypes.c_uint64 * 12)()
        self._call("traced_tables", given)
        views = [
            _view(self._handle, given[2 * at], given[2 * at + 1] * struct.calcsize(code), code)
            for at, code in enumerate("iBiHII")
        ]
        self.name, self.level, self.parent, self.step, self.number, self.elements = views

    def names(self) -> TypesAnswer:
        """What the numbers in the tables stand for, as arenascope_traced_names has it."""
        given = _Given(2)
        self._call("traced_names", given.argument)
        return given.answer()

    def rows(self, matching: bytes) -> TypesAnswer:
        """The containers by the way to them, as arenascope_traced_rows has them. `matching`: a byte for each block, or
        none."""
        call, given, size = _Call(), _Given(2), 2 * len(self.name)
        table = call.table(bytearray(matching))
        self.image._run("traced_rows", self.types.pointer, self.pointer, table, CONTROL, given.argument, size=size)
        return given.answer()

    def waste(self, present: Optional[Sequence[Span]]) -> TypesAnswer:
        """What of the blocks is not needed, as arenascope_traced_waste has it. `present`: what is in memory, in order;
        None: that is not known."""
        call, given, size = _Call(), _Given(2), 2 * len(self.name)
        spans = call.rows("Q", present or ()), int(present is not None)
        self.image._run("traced_waste", self.types.pointer, self.pointer, *spans, CONTROL, given.argument, size=size)
        return given.answer()

    def steps(self, pairs: Sequence[tuple[int, int]]) -> list[str]:
        """By which step a block leads to another, "" where types do not tell; of each pair of blocks' numbers."""
        call, given = _Call(), _Given(2)
        asked = call.table(array("I", [number for pair in pairs for number in pair]))
        self.image._call("traced_steps", self.types.pointer, self.pointer, asked, given.argument)
        answer = given.answer()
        return [answer.string() for _ in pairs]

    def values(self, question: TypesQuestion, meter: Meter) -> TypesAnswer:
        """What objects of a type have in their members, as arenascope_traced_values has it."""
        given = self._asked("traced_values", question, meter)
        return given.answer()

    def matching(self, question: TypesQuestion, meter: Meter) -> tuple[list[int], memoryview]:
        """For which objects conditions hold, as arenascope_traced_matching has it: four numbers for each condition, and
        a byte for each block."""
        given = self._asked("traced_matching", question, meter)
        return given.view("Q").tolist(), given.view("B", at=1)

    def _asked(self, name: str, question: TypesQuestion, meter: Meter) -> _Given:
        call, given, size = _Call(), _Given(2), 2 * len(self.name)
        arguments = self.types.pointer, self.pointer, *call.question(question), CONTROL, given.argument
        self.image._run(name, *arguments, size=size, meter=meter)
        return given

    def fitting(self, types: Sequence[int], starts: Sequence[int]) -> list[tuple[int, int]]:
        """Of each type, in how many of the blocks that begin there no word contradicts it, and how many words of these
        show it."""
        call, given = _Call(), _Given(1)
        tables = call.table(array("i", types)), call.table(array("Q", starts))
        self.image._call("traced_fitting", self.types.pointer, self.pointer, *tables, given.argument)
        numbers = given.view("I").tolist()
        return [*zip(numbers[::2], numbers[1::2])]


def python_objects(image: EngineImage, question: TypesQuestion, size: int, meter: Meter) -> TypesAnswer:
    """What lies below the modules and frames of CPython, as arenascope_python has it; `size`: of references."""
    call, given = _Call(), _Given(2)
    arguments = *call.question(question), CONTROL, given.argument
    image._run("python", *arguments, size=size, at_once=FEW_STEPS, meter=meter)
    return given.answer()


class ObjectReading(_Owned):
    """What objects of types that were traced hold, as engine/src/types/tracer/reading.rs has it."""

    def __init__(self, traced: TracedBlocks) -> None:
        pointer = ctypes.c_void_p()
        image, types = traced.image, traced.types
        traced._call("reading_open", image.pointer, types.pointer, ctypes.byref(pointer))
        super().__init__(pointer, _library().arenascope_reading_close, traced._stop_if_asked)
        self._traced = traced
        self._nature, self._contents = ctypes.c_uint32(), (ctypes.c_uint64 * 6)()

    def nature(self, type: int) -> tuple[bool, bool, bool]:
        """Whether a type is a library's container, one of numbers, and whether it is flexible."""
        self._call("reading_nature", ctypes.c_int32(type), ctypes.byref(self._nature))
        bits = self._nature.value
        return bool(bits & 1), bool(bits & 2), bool(bits & 4)

    def contents(self, type: int, address: int) -> tuple[Optional[int], Optional[tuple[int, int, int]]]:
        """How many elements a container has, and of a text where it begins, its letters, and bytes of a letter."""
        self._call("reading_contents", ctypes.c_int32(type), ctypes.c_uint64(address), self._contents)
        has_elements, elements, has_text, start, length, size = self._contents
        return elements if has_elements else None, (start, length, size) if has_text else None
