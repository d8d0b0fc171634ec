"""Variables of frames have the values that the program says they have, wherever the compiler keeps them."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

import pytest
from doors import GDB, Live
from looks import opened
from subjects import Started, compiled

from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.elf.elf_file import proven_files
from arenascope.sources.shell_target import ShellTarget
from arenascope.sources.type_source import StartVariable
from arenascope.sources.types_by_engine import TypesByEngine

SOURCE = """
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
struct Node { long number; Node *next; };
static char said[1 << 14];
static size_t length;
static std::mutex lock;
__attribute__((noinline)) static void tell(const char *function, const char *name, const void *value) {
    std::lock_guard<std::mutex> guard(lock);
    long tid = syscall(SYS_gettid);
    length += snprintf(said + length, sizeof said - length, "%ld:%s:%s=%lx ", tid, function, name, (long)value);
}
#define TELL(name) tell(__func__, #name, (const void *)name)
#define TELL_PLACE(name) tell(__func__, #name, &name)
#define NEEDED(name) asm volatile("" : : "g"(name))
static Node *made(Node *next) {
    Node *node = (Node *)calloc(1, sizeof *node);
    node->next = next;
    return node;
}
static pthread_barrier_t ready;
static volatile bool ends;
__attribute__((noinline)) static void park(bool is_last) {
    if (is_last) {
        pthread_barrier_wait(&ready);
        puts(said);
        fflush(stdout);
    } else
        pthread_barrier_wait(&ready);
    while (!ends) pause();
}
__attribute__((noinline, cold)) static void freeze(Node *frozen) {
    TELL(frozen);
    static Node *unmoved;
    unmoved = frozen;
    park(frozen->number == 10);
    NEEDED(frozen);
    NEEDED(unmoved);
}
__attribute__((noinline)) static long rare(Node *seldom, Node *const &referred, long times) {
    static thread_local long calls;
    calls++;
    if (__builtin_expect(times != 0, 0)) {
        Node *inner = seldom->next;
        TELL(seldom);
        TELL(inner);
        TELL_PLACE(referred);
        freeze(inner);
        NEEDED(inner);
        Node *later = inner->next;
        NEEDED(later);
        NEEDED(&referred);
    }
    NEEDED(seldom);
    return calls;
}
__attribute__((always_inline)) inline long inlined(Node *outer, long times) {
    Node *between = made(made(made(outer)));
    between->next->number = outer->number;
    TELL(outer);
    TELL(between);
    long found = rare(between, *&between->next, times);
    NEEDED(outer);
    NEEDED(between);
    return found;
}
__attribute__((noinline)) static long passes_on(Node *given, Node *own, int size) {
    volatile long row[size];
    memset((void *)row, 0, sizeof row);
    TELL(given);
    TELL(own);
    TELL(row);
    auto lambda = [&](Node *captured) {
        TELL(captured);
        long found = inlined(captured, size);
        NEEDED(captured);
        return found;
    };
    long found = lambda(own);
    NEEDED(own);
    NEEDED(row);
    return found;
}
static void handle(int number) {
    Node *handled = made(nullptr);
    handled->number = number;
    TELL(handled);
    passes_on(handled, handled, 3);
    NEEDED(handled);
}
static void *run(void *argument) {
    Node *threads = (Node *)argument;
    TELL(threads);
    passes_on(threads, made(threads), 5);
    NEEDED(threads);
    return nullptr;
}
__attribute__((noinline)) static long interrupted(Node *held, Node *other) {
    TELL(held);
    TELL(other);
    raise(SIGUSR1);
    NEEDED(held);
    NEEDED(other);
    return held->number;
}
int main() {
    pthread_barrier_init(&ready, nullptr, 3);
    signal(SIGUSR1, handle);
    Node *first = made(nullptr), *second = made(first);
    TELL(first);
    TELL(second);
    pthread_t threads[2];
    for (auto &each : threads) pthread_create(&each, nullptr, run, made(second));
    long found = interrupted(first, second);
    NEEDED(first);
    NEEDED(second);
    return found;
}
"""
NEEDED = {"frozen", "seldom", "inner", "referred", "outer", "between", "own", "row", "captured", "handled", "threads"}
NEEDED |= {"held", "other", "first", "second"}
"""Variables whose values the program needs after what it waits for."""
IN_REGISTERS = "given"
"""It is needed no longer, but the callers' registers tell what the function was called with."""
LAMBDA = "operator()"


class Told(NamedTuple):
    tid: int
    function: str
    name: str


WAYS = ["g++ -O2", *(pytest.param(each, marks=pytest.mark.full) for each in ("g++ -O0", "g++ -O2 -gdwarf-4"))]
WAYS += [pytest.param(each, marks=pytest.mark.full) for each in ("clang++ -O0", "clang++ -O2")]
ROUNDS = 60
LEAST = 10


class Seen(NamedTuple):
    """How a program was compiled, what it has told, and its core."""

    how: str
    told: dict[Told, int]
    program: Path
    core: CoreImage

    def types(self) -> TypesByEngine:
        """Read anew from the program's file; what is known of libraries takes long, and is not needed."""
        return TypesByEngine(ShellTarget(self.core, declared=True), (), None)


@pytest.fixture(params=WAYS, scope="module")
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("frames")
    compiler, *flags = request.param.split()
    # others than the last function's callers may be left out
    program = compiled(SOURCE, folder, "-g", "-pthread", "-fno-optimize-sibling-calls", *flags, compiler=compiler)
    core = folder / "core"
    with Started(program) as process:
        opened(GDB).do(Live(process.pid, program), [f"generate-core-file {core}"])
    told = {}
    for tid, function, name, value in re.findall(r"(\d+):([^:]+):(\w+)=(\w+)", process.said):
        told[Told(int(tid), function, name)] = int(value, 16)
    image = CoreImage(str(core))
    try:
        yield Seen(request.param, told, program, image)
    finally:
        image.close()


def own_name(local: StartVariable) -> str:
    """A function's name as __func__ has it."""
    return LAMBDA if LAMBDA in local.function else local.function.partition("(")[0]


def value_of(types: TypesByEngine, local: StartVariable) -> Optional[int]:
    """A pointer's value, or where an array is."""
    if local.data is not None or local.address is None:
        return int.from_bytes(local.data, "little") if local.data is not None else None
    if types.facts(local.type).form == "array":
        return local.address
    return int.from_bytes(types._target.read(local.address, 8), "little")


def test_values_are_the_programs(seen: Seen) -> None:
    how, told, types = seen.how, seen.told, seen.types()
    found = {Told(each.tid, own_name(each), each.name): each for each in types.locals()}
    assert {each.name for each in told} == NEEDED | {IN_REGISTERS}
    values = {each: value_of(types, found[each]) for each in told if each in found}
    wrong = {each: value for each, value in values.items() if value not in (None, told[each])}
    assert not wrong
    placed = {each for each, value in values.items() if value is not None}
    needed = {each for each in told if each.name in NEEDED or "-O0" in how or how == "g++ -O2"}
    assert placed >= needed
    # in no frame, or without a value yet
    assert not {each.name for each in found} & {"unmoved", "calls", "later"}
    lengths = sorted(types.facts(each.type).length or 0 for key, each in found.items() if key.name == "row")
    # clang does not keep the length where nobody needs it
    assert lengths == ([0, 0, 0] if how == "clang++ -O2" else [3, 5, 5])


def test_frames_are_numbered_from_the_innermost(seen: Seen) -> None:
    """With those that are inlined in others; of a signal's handler with what it interrupted."""
    told, types = seen.told, seen.types()
    main = max({each.tid for each in told}, key=lambda tid: sum(each.tid == tid for each in told))
    functions = {each.frame: own_name(each) for each in types.locals() if each.tid == main}
    order = [functions[frame] for frame in sorted(functions)]
    program = ["freeze", "rare", "inlined", LAMBDA, "passes_on", "handle", "interrupted", "main"]
    assert [each for each in order if each in program] == program
    assert order[-1] == "main"


def test_what_is_optimised_out_has_its_frame(seen: Seen) -> None:
    """The part of the stack is the function's own: none overlaps another one of its thread."""
    types = seen.types()
    frames = {(each.tid, each.within) for each in types.locals() if each.within is not None}
    for tid in {tid for tid, _ in frames}:
        parts = sorted((each.low, each.high) for owner, each in frames if owner == tid and each is not None)
        assert all(low < high for low, high in parts)
        assert all(one[1] <= other[0] for one, other in zip(parts, parts[1:]))


@pytest.mark.full
def test_damaged_files_cost_names_alone(seen: Seen) -> None:
    """Whatever stands in debug information and unwind tables, the engine answers."""
    sound, sound_locals = seen.program.read_bytes(), seen.types().locals()
    (file,) = proven_files([str(seen.program)], seen.types()._modules[0].build_id)
    parts = [each for each in file.sections if each.name.startswith((".debug", ".eh_frame")) and each.size]
    chance, others = random.Random(5), 0
    try:
        for _ in range(ROUNDS):
            damaged = bytearray(sound)
            for _ in range(chance.choice((1, 20, 300))):
                part = chance.choice(parts)
                damaged[part.offset + chance.randrange(part.size)] = chance.choice((0, 255, chance.randrange(256)))
            seen.program.write_bytes(damaged)
            others += seen.types().locals() != sound_locals
    finally:
        seen.program.write_bytes(sound)
    assert others > LEAST
    assert seen.types().locals() == sound_locals
