"""Where malloc's own code lies: whether an address, or a frame of a stack, is inside it.

Names alone prove nothing (a program may have a `new_heap` of its own), and without symbols there are none for malloc's
static functions. So a frame counts by its place: all of malloc is one object file, whose exported functions come last.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError
from ...sources.elf.address_names import modules_of
from ...sources.elf.symbols import dynamic_symbols
from ...sources.memory import Memory
from ...sources.target import Place, Region, Span, Target
from .libc_file import LIBC_NAME, Libc

EDGES = (
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "malloc_trim",
    "mallopt",
    "malloc_info",
    "malloc_stats",
    "malloc_usable_size",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "mallinfo",
    "mallinfo2",
)
"""Functions that malloc.o exports under these names, in every release."""
FAMILY = frozenset(
    [
        *EDGES,
        "aligned_alloc",
        "cfree",
        "__libc_malloc",
        "__libc_malloc2",
        "__libc_calloc2",
        "__libc_free",
        "__libc_calloc",
        "__libc_realloc",
        "__libc_memalign",
        "__libc_pvalloc",
        "__libc_valloc",
        "__posix_memalign",
        "_int_malloc",
        "_int_free",
        "_int_realloc",
        "_int_memalign",
        "_mid_memalign",
        "sysmalloc",
        "sysmalloc_mmap",
        "sysmalloc_mmap_fallback",
        "systrim",
        "malloc_printerr",
        "alloc_perturb",
        "detach_arena",
        "mtrim",
        "malloc_consolidate",
        "unlink_chunk",
        "munmap_chunk",
        "mremap_chunk",
        "heap_trim",
        "grow_heap",
        "shrink_heap",
        "new_heap",
        "alloc_new_heap",
        "arena_get2",
        "arena_get_retry",
        "reused_arena",
        "_int_new_arena",
        "ptmalloc_init",
        "tcache_init",
        "tcache_get",
        "tcache_put",
        "tcache_thread_shutdown",
        "__malloc_arena_thread_freeres",
        "__malloc_fork_lock_parent",
        "__malloc_fork_unlock_parent",
        "__malloc_fork_unlock_child",
        "_int_free_chunk",
        "_int_free_merge_chunk",
        "_int_free_create_chunk",
        "_int_free_maybe_consolidate",
        "_int_free_maybe_trim",
        "int_mallinfo",
        "__malloc_info",
        "__malloc_trim",
    ]
)
"""Functions of malloc.c and arena.c, in every release."""
FORKS = ("fork", "_Fork", "__libc_fork")
"""They hold malloc's locks for a while and lie elsewhere."""
STATICS_IN_FRONT = 0x4900
"""malloc.o's static functions come before its exported ones: 0x3c00 (armhf) to 0x4900 (s390x) bytes of them."""
LAST_FUNCTION = 0x600
"""How long a function of unknown length may be."""
BESIDE = ("timer_", "__timer_", "sem_", "__new_sem_", "pthread_", "__pthread_", "___pthread_", "__futex_")
"""Names in files that are linked in front of malloc.o (since 2.34; in static programs others than in libc.so): threads
wait there. None of them is malloc's."""


UNKNOWN_CODE = "where malloc's code lies is not known: a thread could be inside"
LOAD_SYMBOLS = "load libc's symbols"


class StackFrame(NamedTuple):
    """One frame of a thread, innermost first."""

    pc: int
    name: Optional[str]
    stack_pointer: Optional[int] = None


class MallocCode:
    """Malloc's code in one libc, or in the program itself where that is static."""

    def __init__(
        self, target: Target, memory: Memory, libc: Libc, regions: Sequence[Region], symbols: bool = False
    ) -> None:
        """`symbols`: those that the target knows are this libc's."""
        self.libc = _code_of(libc, regions)
        edges, forks = _functions(target, memory, libc, EDGES), _functions(target, memory, libc, FORKS)
        self._sbrk = _functions(target, memory, libc, ("sbrk",))
        self.known = bool(edges)
        first = min((start for start, _ in edges), default=0)
        self._exported = Span(first, max((end for _, end in edges), default=0))
        self._ranges = [Span(first - STATICS_IN_FRONT, self._exported.end), *forks] if edges else forks
        # where names of static functions were stripped, an address has the name of whatever lies in front of it
        named = symbols and target.symbol("_int_malloc") is not None
        self._describe: Callable[[int], Optional[Place]] = target.describe if named else lambda address: None
        self._has_names = lies_in_libc(libc)

    def holds(self, address: int) -> bool:
        return any(low <= address < high for low, high in self._ranges) and not self._is_beside(address)

    def _is_beside(self, address: int) -> bool:
        """Whether it certainly belongs to another file, although it may look like malloc's."""
        place = self._describe(address) if address < self._exported.start else None
        return place is not None and place.name.startswith(BESIDE)

    def owns(self, frame: StackFrame) -> bool:
        """By place; by name only within libc itself, where compilers set cold code apart (`free.cold`)."""
        if self.holds(frame.pc):
            return True
        return self._has_names and plain_name(frame.name) in FAMILY and self.in_libc(frame.pc)

    def in_sbrk(self, address: int) -> bool:
        """A function of libc's that malloc calls, and which calls brk() in turn."""
        return any(low <= address < high for low, high in self._sbrk)

    def in_libc(self, address: int) -> bool:
        return any(region.contains(address) for region in self.libc)


def lies_in_libc(libc: Libc) -> bool:
    """Whether malloc is a library's, whose own tables tell where its functions lie; a static program has no such."""
    return bool(LIBC_NAME.search(libc.path))


def plain_name(name: Optional[str]) -> str:
    """Without what compilers and linkers add; __GI_ is glibc's mark of a name that is hidden within it."""
    return (name or "").split(".")[0].split("@")[0].removeprefix("__GI_")


def _code_of(libc: Libc, regions: Sequence[Region]) -> list[Region]:
    module = next((each for each in modules_of(regions) if each[0].start == libc.base), [])
    return [region for region in module if region.executable] or list(module)


def _functions(target: Target, memory: Memory, libc: Libc, names: Sequence[str]) -> list[Span]:
    """libc's functions, from its own tables, as the debugger's may be another library's."""
    try:
        symbols = dynamic_symbols(memory.read, libc.base, names) if libc.base is not None else {}
    except ArenascopeError:
        symbols = {}
    if symbols:
        return [Span(each.value, each.value + (each.size or LAST_FUNCTION)) for each in symbols.values()]
    if lies_in_libc(libc):
        return []
    told = [target.symbol(name) for name in names]
    return [Span(each.address, each.address + LAST_FUNCTION) for each in told if each is not None]
