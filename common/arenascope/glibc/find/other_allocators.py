"""Finds the allocator that serves malloc, and any other with a heap: by libraries, by symbols, by strings of a stripped
file.

An allocator that replaces malloc is found as the dynamic linker finds it: the first module in its order that exports
malloc. One with a heap of its own beside malloc (Go, a JVM) leaves glibc's arenas to the C code of the process.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError
from ...base.heap_model import Allocator
from ...sources.elf.modules import LinkedPlace, Module, Modules, modules_of
from ...sources.target import Region, Target
from .libc_file import LIBC_NAME, MUSL_NAME

SANITIZER = "sanitizer/allocator_interface.h has its figures: __sanitizer_get_heap_size() and its kin"


class AllocatorSigns(NamedTuple):
    """An allocator, and the signs of it."""

    name: str
    libraries: str
    """The start of its library's file name, as a regular expression; "" if it has none."""
    symbols: tuple[str, ...]
    instead: str
    own_heap: bool = False
    """Whether it has a heap beside malloc and does not serve malloc."""
    by_force: bool = False
    """Whether its presence alone means that malloc is not glibc's, whatever exports it."""
    strings: tuple[bytes, ...] = ()
    """Strings in its messages: they outlast the symbols."""
    sections: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    """If the program exports one of these, its file is searched for the strings even if malloc is glibc's."""
    pointers: tuple[str, ...] = ()
    """Exported variables that point into its memory."""
    mapped_as: str = ""
    """The name of its mappings (PR_SET_VMA_ANON_NAME), as a regular expression."""


KINDS = (
    AllocatorSigns(
        "jemalloc",
        r"libjemalloc",
        ("mallctl", "je_mallctl", "_rjem_mallctl"),
        "malloc_stats_print() prints its figures, MALLOC_CONF=stats_print:true does so at exit, "
        'mallctl("arena.N.purge") returns free pages (redis: MEMORY MALLOC-STATS, MEMORY PURGE), jeprof reads its '
        "profiles",
        strings=(b"<jemalloc>: ",),
    ),
    AllocatorSigns(
        "tcmalloc",
        r"libtcmalloc",
        ("tc_malloc", "_ZN15MallocExtension8instanceEv", "TCMallocInternalMalloc"),
        "MallocExtension::GetStats prints its figures, ReleaseFreeMemory returns free pages, pprof reads its profiles",
        strings=(b"tcmalloc: large alloc", b"TCMALLOC_SAMPLE_PARAMETER"),
    ),
    AllocatorSigns(
        "mimalloc",
        r"libmimalloc",
        ("mi_version", "mi_malloc"),
        "MIMALLOC_SHOW_STATS=1 prints its figures at exit, mi_collect(true) returns free pages",
        strings=(b"mimalloc: ",),
    ),
    AllocatorSigns(
        "PartitionAlloc",
        "",
        (),
        "about:memory-internals and about:tracing (memory-infra) report on it, process by process",
        # its figures in memory-infra
        strings=(b"partition_alloc/partitions",),
        mapped_as=r"partition_alloc",
    ),
    AllocatorSigns("Hoard", r"libhoard", ("xxmalloc",), "Hoard's own tools"),
    AllocatorSigns("AddressSanitizer", r"lib(clang_rt\.)?asan", ("__asan_init",), SANITIZER),
    AllocatorSigns("ThreadSanitizer", r"lib(clang_rt\.)?tsan", ("__tsan_init",), SANITIZER),
    AllocatorSigns("MemorySanitizer", r"libclang_rt\.msan", ("__msan_init",), SANITIZER),
    AllocatorSigns("LeakSanitizer", r"liblsan", ("__lsan_init",), SANITIZER),
    AllocatorSigns(
        "Scudo", r"lib(clang_rt\.)?scudo", ("__scudo_print_stats",), "__scudo_print_stats() prints its figures"
    ),
    AllocatorSigns("snmalloc", r"libsnmalloc", (), "snmalloc's own statistics"),
    AllocatorSigns(
        "rpmalloc", r"librpmalloc", ("rpmalloc_dump_statistics",), "rpmalloc_dump_statistics() prints its figures"
    ),
    AllocatorSigns("tbbmalloc", r"libtbbmalloc_proxy", (), "oneTBB's own tools"),
    AllocatorSigns(
        "Valgrind", r"vgpreload_(?!core)", (), "Valgrind's own report: --leak-check=full, --tool=massif", by_force=True
    ),
    AllocatorSigns(
        "musl",
        "",
        ("__libc_malloc_impl",),
        # of its strerror(), which its printf() brings in
        "musl keeps no figures: /proc/PID/smaps_rollup has the sums",
        strings=(b"No error information",),
        by_force=True,
    ),
    AllocatorSigns(
        "Go",
        "",
        ("runtime.mallocgc",),
        "GODEBUG=gctrace=1, runtime/metrics and go tool pprof report on its heap",
        own_heap=True,
        sections=(".go.buildinfo", ".gopclntab"),
        mapped_as=r"Go: ",
    ),
    AllocatorSigns(
        "JVM",
        r"libjvm\.so",
        ("JNI_CreateJavaVM",),
        "jcmd PID VM.native_memory reports on its heap (start java with -XX:NativeMemoryTracking=summary)",
        own_heap=True,
    ),
    AllocatorSigns(
        "V8",
        r"lib(node|v8)\.so",
        ("napi_create_object", "_ZN2v87Isolate3NewERKNS0_12CreateParamsE"),
        "v8.getHeapStatistics() and node --heapsnapshot-signal=SIGUSR2 report on its heap (in a browser: DevTools)",
        own_heap=True,
        # a histogram that V8 itself defines
        strings=(b"V8.MemoryHeapSampleTotalCommitted",),
        mapped_as=r"v8$",
    ),
    AllocatorSigns(
        "CPython",
        r"libpython3",
        ("_PyObject_DebugMallocStats", "PyObject_Malloc"),
        "arenascope containers tells what its modules and functions hold; memray attach PID tells who allocates in it, "
        "as does tracemalloc where the program starts it; "
        "sys._debugmallocstats() prints what its arenas hold; started with PYTHONMALLOC=malloc it has all from malloc",
        own_heap=True,
        mapped_as=r"cpython:",
    ),
    AllocatorSigns(
        "Ruby",
        r"libruby",
        ("rb_gc_stat",),
        "GC.stat and ObjectSpace.memsize_of_all (require 'objspace') report on its heap; where GC.stat's "
        "heap_free_slots are many, GC.compact and then GC.start return pages",
        own_heap=True,
        mapped_as=r"Ruby:",
    ),
    AllocatorSigns(
        "Zend",
        r"libphp",
        ("zend_mm_gc", "zend_memory_usage"),
        "memory_get_usage(true) reports on PHP's heap; gc_mem_caches() returns what is free in it",
        own_heap=True,
        mapped_as=r"zend_alloc",
    ),
    AllocatorSigns(
        "InnoDB",
        r"ha_innodb\.so",
        ("srv_buf_pool_size",),
        "SHOW ENGINE INNODB STATUS reports on its buffer pool, innodb_buffer_pool_size sets it",
        own_heap=True,
        # help for one of its variables, in MySQL and in MariaDB
        strings=(b"Abort a currently running load of the buffer pool",),
        beside=("my_large_malloc",),
    ),
    AllocatorSigns(
        "PostgreSQL",
        "",
        ("BufferBlocks", "UsedShmemSegAddr"),
        "pg_shmem_allocations lists its shared memory, shared_buffers sets most of it; "
        "pg_log_backend_memory_contexts(PID) writes into the server's log what a backend holds",
        own_heap=True,
        pointers=("BufferBlocks",),
    ),
)
HANDS_ON = re.compile(r"^lib(heaptrack_|memusage|mtrace|bytehound)")
"""Libraries that define malloc, record the call and pass it on to glibc."""
NAMES = tuple(dict.fromkeys(name for kind in KINDS for name in (*kind.symbols, *kind.beside)))
ELSEWHERE = "that library's own statistics"


def find_allocators(target: Target, regions: Sequence[Region]) -> list[Allocator]:
    """Returns the allocators that replace glibc's, or have a heap of their own; the one that owns malloc comes
    first."""
    modules = Modules(target, modules_of(regions))
    owner, known = _owner(modules)
    allocators: dict[str, Allocator] = {}
    for module in modules.all:
        kind = _by_name(module)
        if kind is not None and _bears_out(modules, module, kind):
            allocators.setdefault(kind.name, _mapped(modules, kind, module, owner, known=known))
    for allocator in _in_program(modules, owner, known):
        allocators.setdefault(allocator.name, allocator)
    if owner is not None and not any(each.replaces_malloc for each in allocators.values()):
        nameless = _nameless(modules, owner)
        allocators.update({each.name: each for each in nameless})
    return sorted(allocators.values(), key=lambda each: each.replaces_malloc is not True)


def places_of_modules(target: Target, regions: Sequence[Region]) -> list[LinkedPlace]:
    """Returns all structures that tell which modules are loaded, in which order."""
    try:
        return list(Modules(target, modules_of(regions)).places())
    except ArenascopeError:
        return []


def _by_name(module: Module) -> Optional[AllocatorSigns]:
    if MUSL_NAME.search(module.path):
        return next(kind for kind in KINDS if kind.name == "musl")
    return next((kind for kind in KINDS if kind.libraries and re.match(kind.libraries, module.name)), None)


def _bears_out(modules: Modules, module: Module, kind: AllocatorSigns) -> bool:
    """Confirms a file's name, which can lie: if its symbol table can be read, it must have a typical symbol or
    malloc."""
    if not kind.symbols or MUSL_NAME.search(module.path):
        return True
    return modules.find_exports(module, (*kind.symbols, "malloc")) != {}


def _owner(modules: Modules) -> tuple[Optional[Module], bool]:
    """Returns (the module whose malloc the process calls, or None for glibc's; whether that is known)."""
    order = modules.in_order
    if order is None:
        return None, False
    for module in order:
        if MUSL_NAME.search(module.path):
            return module, True
        if LIBC_NAME.search(module.path):
            return None, True
        if modules.exported(module, ("malloc",)):
            return module, True
    return None, False


def _mapped(modules: Modules, kind: AllocatorSigns, module: Module, owner: Optional[Module], known: bool) -> Allocator:
    """Finds a library by its name. It need not be the one that malloc leads to."""
    if kind.own_heap:
        return Allocator(kind.name, module.name, False, kind.instead, places=_places(modules, kind, module))
    if not known or module == owner or (kind.by_force and owner is None):
        return Allocator(kind.name, module.name, True, kind.instead)
    first = owner.name if owner else "libc"
    return Allocator(kind.name, f"{module.name}, after {first}", False, kind.instead, shadowed_by=first)


def _in_program(modules: Modules, owner: Optional[Module], known: bool) -> Iterator[Allocator]:
    """Finds allocators linked into the program itself."""
    program = modules.program
    if program is None or _by_name(program) is not None:
        return
    exported = modules.exported(program, NAMES)
    # a program that exports a sign says enough, and tables of static names can be large
    static = {} if exported else modules.static(program, (*NAMES, "malloc", "__libc_malloc"))
    sections = modules.sections(program)
    owns = program == owner
    if not known:
        # a static program: glibc's malloc is an alias of __libc_malloc
        owns = "malloc" in static and static["malloc"] != static.get("__libc_malloc")
    # only where something has to be explained, as this reads the whole file
    sought = owns or not any(LIBC_NAME.search(each.path) or MUSL_NAME.search(each.path) for each in modules.all)
    for kind in KINDS:
        sign = next((name for name in kind.symbols if name in exported or name in static), None)
        sign = sign or next((name for name in kind.sections if name in sections), None)
        likely = (sought and not static) or any(name in exported for name in kind.beside)
        if sign is None and likely and modules.strings(program, kind.strings):
            sign = "by its messages"
        if sign is not None:
            replaces: Optional[bool] = not kind.own_heap and (owns or kind.by_force)
            if not (known or static or kind.own_heap or kind.by_force):
                replaces = None
            places = _places(modules, kind, program)
            yield Allocator(kind.name, f"in {program.name}: {sign}", replaces, kind.instead, places=places)


def _places(modules: Modules, kind: AllocatorSigns, module: Module) -> tuple[int, ...]:
    """Returns addresses in its memory, from the module's own variables."""
    variables = modules.exported(module, kind.pointers) if kind.pointers else {}
    return tuple(place for place in map(modules.pointer, variables.values()) if place)


def maker_of(region: Region, allocators: Sequence[Allocator]) -> str:
    """Returns the allocator that made a mapping, by the name that the kernel was given for it or by that allocator's
    own variables; "" if not known."""
    name = re.match(r"\[anon: ?(.*)\]", region.path) if region.path else None
    if name:
        said = next((kind.name for kind in KINDS if kind.mapped_as and re.match(kind.mapped_as, name[1])), "")
        if said:
            return said
    return next((each.name for each in allocators if any(region.contains(place) for place in each.places)), "")


def _nameless(modules: Modules, owner: Module) -> Iterator[Allocator]:
    """Describes a file that malloc leads to and whose name is not known."""
    if HANDS_ON.match(owner.name):
        return
    signs = modules.exported(owner, NAMES).keys()
    kind = next((kind for kind in KINDS if not kind.own_heap and signs & set(kind.symbols)), None)
    if kind is not None:
        yield Allocator(kind.name, owner.name, True, kind.instead)
    else:
        # it may well pass all calls on to glibc
        yield Allocator(owner.name, f"{owner.name} exports malloc", None, ELSEWHERE)
