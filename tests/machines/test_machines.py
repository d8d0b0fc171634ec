"""Heaps of other machines, under QEMU's user-mode emulation: of the guest's core, and over the emulator's stub, checked
against glibc's own figures and the guest's system calls.

Their fixtures and libraries come from scripts/build_machines.sh.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence

import pytest
from album import Said
from doors import LOAD, Gdb
from lldb_door import LLDBS, Lldb
from looks import Core, Outcome, give_up, needs, opened, stripped
from platforms import BUILD, Platform
from shell_door import SHELL
from subjects import DUMP_SECONDS, Subject
from test_exactness import mallinfo
from test_types import CLAIMING, MANY, is_right, kinds_by_block, planted_by

from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session

pytestmark = [pytest.mark.full, pytest.mark.debugger]
GDB_NAME = "gdb-multiarch"
CORE, STUB = "qemu-core", "stub"
TRIM = "trim --ranges --json"
COMMANDS = ("info", "stats", "arenas --json", "heaps --json", "threads --json", "version --json", TRIM)
MMAPPED = "mmapped --json"
"""A search of all memory for them takes seconds over the stub: of one scenario alone."""


@dataclass(frozen=True)
class Machine:
    """A processor with a release of glibc."""

    id: str
    release: str
    machine: str
    """By the name that Target.machine has for it."""
    emulator: str
    triple: str
    byte_order: str = "little"
    pointer_bytes: int = 8
    page: int = 4096
    dumps: bool = True
    """QEMU 7.2 writes no core of a riscv64 guest."""
    static: bool = False
    only: tuple[str, ...] = ()
    """The scenarios that it is given; none named: all."""

    @property
    def platform(self) -> Platform:
        return Platform(self.folder.name, self.release, self.machine)

    @property
    def folder(self) -> Path:
        # pages of another size make no other programs
        return BUILD / self.id.replace("-64k", "")

    @property
    def root(self) -> Path:
        """What the guest finds at /."""
        return self.platform.root

    @property
    def debug(self) -> Path:
        return self.platform.debug


MACHINES = (
    Machine(
        "aarch64",
        "2.36",
        "aarch64",
        "qemu-aarch64",
        "aarch64-linux-gnu",
        only=("hoard", "mmapped", "many_heaps", "tcache-tls"),
    ),
    Machine("aarch64-2.43", "2.43", "aarch64", "qemu-aarch64", "aarch64-linux-gnu", only=("hoard", "bins", "tcache")),
    Machine(
        "arm",
        "2.36",
        "arm",
        "qemu-arm",
        "arm-linux-gnueabihf",
        pointer_bytes=4,
        only=("hoard", "bins", "tcache", "tcache-tls", "mmapped", "fastbins"),
    ),
    Machine(
        "ppc64",
        "2.36",
        "ppc64",
        "qemu-ppc64le",
        "powerpc64le-linux-gnu",
        only=("hoard", "tcache", "tcache-tls", "pinned"),
    ),
    # what QEMU maps for ld.so in pages of this size it neither dumps nor serves whole: only a static program is
    Machine("ppc64-64k", "2.36", "ppc64", "qemu-ppc64le", "powerpc64le-linux-gnu", page=65536, static=True),
    Machine(
        "riscv64",
        "2.41",
        "riscv64",
        "qemu-riscv64",
        "riscv64-linux-gnu",
        dumps=False,
        only=("hoard", "tcache", "tcache-tls", "many_heaps"),
    ),
    Machine("s390x", "2.36", "s390x", "qemu-s390x", "s390x-linux-gnu", byte_order="big"),
)


@dataclass(frozen=True)
class Scenario:
    """A fixture with arguments, small: emulation is slow."""

    name: str
    fixture: str
    arguments: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


# under an emulator the fixture cannot run itself again with this
NO_TCACHE = (("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"),)
SCENARIOS = (
    Scenario("hoard", "hoard", ("3", "6")),
    Scenario("bins", "bins"),
    Scenario("tcache", "tcache"),
    Scenario("tcache-tls", "tcache.tls"),
    Scenario("mmapped", "mmapped"),
    Scenario("many_heaps", "many_heaps", ("3", "plain")),
    Scenario("pinned", "pinned", ("both", "4")),
    Scenario("fastbins", "fastbins", env=NO_TCACHE),
)
STATIC = (
    Scenario("hoard-static", "hoard.static", ("3", "6")),
    Scenario("bins-static", "bins.static"),
    Scenario("pinned-static", "pinned.static", ("both", "4")),
)


def subjects() -> Iterator[Any]:
    """All looks at one subject are one worker's."""
    for machine in MACHINES:
        for scenario in STATIC if machine.static else SCENARIOS:
            if not machine.only or scenario.name in machine.only:
                mark = pytest.mark.xdist_group(f"{machine.id} {scenario.name}")
                yield pytest.param((machine, scenario), id=f"{machine.id}-{scenario.name}", marks=mark)


# a guest


class Emulated(Subject):
    """With `stub` the guest waits for a debugger at `socket`, and is ready only once that has let it go."""

    def __init__(self, machine: Machine, scenario: Scenario, stub: bool = True) -> None:
        needs(machine.emulator)
        # QEMU's own memory is of no interest
        super().__init__(
            scenario.fixture, *scenario.arguments, env=dict(scenario.env), coredump_filter=0, platform=machine.platform
        )
        self.machine = machine
        self.stub = stub

    def await_start(self) -> None:
        if not self.stub:
            super().await_start()

    def command(self) -> list[str]:
        command = [self.machine.emulator, "-L", str(self.machine.root), "-strace", "-D", str(self.folder / "calls")]
        if self.machine.page != 4096:
            command += ["-p", str(self.machine.page)]
        if self.stub:
            command += ["-g", self.socket]
        return [*command, *map(str, super().command())]

    def let_go(self) -> None:
        """Its debugger has: it is on its way to be ready."""
        super().await_start()

    @property
    def socket(self) -> str:
        return str(self.folder / "stub")

    def guest_core(self) -> Path:
        """The core that QEMU writes of its guest, which is gone afterwards."""
        os.kill(self.pid, signal.SIGABRT)
        self.process.wait(DUMP_SECONDS)
        found = list(self.folder.glob("qemu_*.core"))
        assert len(found) == 1, f"QEMU wrote {len(found)} cores"
        return found[0]

    def trim(self) -> Trimmed:
        """malloc_trim(0) in the guest."""
        log = self.folder / "calls"
        start = log.stat().st_size
        reply = self.send("trim")
        calls = log.read_text()
        return Trimmed(reply, calls[:start], calls[start:])


class Trimmed:
    """What malloc_trim said, and the system calls by which it gave memory back, by QEMU's -strace."""

    def __init__(self, reply: str, before: str, calls: str) -> None:
        self.reply = reply
        self.before = before
        self.calls = calls

    @property
    def madvised(self) -> list[tuple[int, int]]:
        found = re.findall(r"madvise\((0x[0-9a-f]+),(\d+),MADV_DONTNEED\) = 0", self.calls)
        return sorted((int(address, 16), int(size)) for address, size in found)

    @property
    def break_fell(self) -> int:
        """By how many bytes brk() moved the end of the heap back."""
        before, during = (re.findall(r"brk\(.*\) = (0x[0-9a-f]+)", text) for text in (self.before, self.calls))
        return int(before[-1], 16) - int(during[-1], 16) if during else 0

    @property
    def others(self) -> list[str]:
        """Calls that malloc_trim never makes."""
        return re.findall(r".*\b(?:munmap|mmap|mremap|mmap2)\(.*", self.calls)


# who looks


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


@dataclass(frozen=True)
class Look(Said):
    """What was said of a subject through one door."""

    machine: Machine
    door: str
    image: str
    """"qemu-core": the guest's core that QEMU wrote; "stub": the living guest, over QEMU's GDB stub."""
    symbols: bool
    outcomes: Mapping[str, Outcome]


@dataclass(frozen=True)
class Seen:
    """A subject from all sides, and what is known of it without arenascope."""

    machine: Machine
    scenario: Scenario
    pid: int
    truth: dict[str, Any]
    info_xml: str
    stats_text: str
    looks: Sequence[Look]

    def at(self, image: str) -> list[Look]:
        return [each for each in self.looks if each.image == image]


@pytest.fixture(scope="module", params=list(subjects()))
def seen(request: pytest.FixtureRequest) -> Seen:
    """Over its stub, and its core through each door, now with symbols and now without."""
    machine, scenario = request.param
    asked = [*COMMANDS, *([MMAPPED] if scenario.name == "mmapped" else [])]
    looks = []
    with Emulated(machine, scenario) as subject:
        for symbols, found in zip((True, False), over_stub(machine, subject.program, subject.socket, asked)):
            looks.append(Look(machine, GDB_NAME, STUB, symbols, dict(zip(asked, found))))
        subject.let_go()
        known = (subject.pid, subject.truth, subject.info_xml, subject.stats_text)
        if machine.dumps:
            core, in_core = Core(subject.guest_core(), subject.program), [*COMMANDS, MMAPPED]
            turn = MACHINES.index(machine) + len(scenario.name)
            for number, door in enumerate((GDB_NAME, *(lldb.name for lldb in LLDBS), SHELL.name)):
                # the core names no files, so that the shell finds no symbols
                symbols = (turn + number) % 2 == 0 and door != SHELL.name
                found = through(door, machine, core, in_core, symbols)
                looks.append(Look(machine, door, CORE, symbols, dict(zip(in_core, found))))
    return Seen(machine, scenario, *known, looks)


def test_glibcs_own_figures_byte_for_byte(seen: Seen) -> None:
    for look in seen.looks:
        assert look.text("info") == seen.info_xml
        assert look.text("stats") == seen.stats_text
        assert seen.truth["mallinfo"] == mallinfo(look.json("arenas"))


def test_envelope(seen: Seen) -> None:
    for look in seen.looks:
        for name in ("arenas", "heaps", "threads"):
            document = look.json(name)
            assert document["door"] == look.door.split("-")[0]
            assert (document["complete"], document["problems"]) == (True, []), name
            assert document["target"] == {
                "kind": "core" if look.image == CORE else "live",
                # the stub numbers its one process 1
                "pid": seen.pid if look.image == CORE else None,
                "pointer_bytes": seen.machine.pointer_bytes,
                "page_bytes": seen.machine.page,
            }
            assert document["glibc"]["located_by"] == ("symbols" if look.symbols else "scan")
            # a core without libc's first page does not tell the release
            told = [seen.truth["glibc"], *([None] if look.image == CORE or seen.machine.static else [])]
            assert document["glibc"]["version"] in told


def test_threads_are_attached_to_the_arenas_that_they_use(seen: Seen) -> None:
    """Each living thread's probe is a block that it got from its own arena."""
    alive = {thread["tid"]: thread["probe"] for thread in seen.truth["threads"] if not thread["exited"]}
    for look in seen.looks:
        attached = {thread["tid"]: thread["arena"] for thread in look.json("threads")["threads"]}
        rows = look.json("heaps")["heaps"]
        heaps = [(int(heap["address"], 16), int(heap["end"], 16), heap["arena"]) for heap in rows]
        assert set(attached) == set(alive)
        for tid, probe in alive.items():
            if probe is not None:
                block = int(probe, 16)
                assert [arena for start, end, arena in heaps if start <= block < end] == [attached[tid]], tid
        for arena in look.json("arenas")["arenas"]:
            assert sum(heap["bytes"] for heap in rows if heap["arena"] == arena["index"]) == arena["system_bytes"]


@pytest.mark.parametrize("seen", [each for each in subjects() if "tcache" in each.values[0][1].name], indirect=True)
def test_thread_caches_hold_what_was_freed_into_them(seen: Seen) -> None:
    """By fixtures/tcache.c: sizes of which twenty were freed fill their lists, others got two to five."""
    slots = 16 if seen.machine.release == "2.43" else 7
    # 32-bit: chunks above 520 bytes are not cached, and 24 bytes share a list with 25
    of_worker, of_main = (6 * slots + 2 + 3 + 4 + 5, 3) if seen.machine.pointer_bytes == 8 else (4 * slots + 2 + 3, 0)
    names = {thread["tid"]: thread["name"] for thread in seen.truth["threads"]}
    for look in seen.looks:
        threads = look.json("threads")["threads"]
        assert len(threads) == 4
        for thread in threads:
            expected = of_worker if names[thread["tid"]].startswith("worker") else of_main
            assert thread["tcache"]["chunks"] == expected


@pytest.mark.parametrize("seen", [each for each in subjects() if each.values[0][1].name == "mmapped"], indirect=True)
def test_mmapped_blocks(seen: Seen) -> None:
    for look in seen.at(CORE):
        document = look.json("mmapped")
        assert document["match"]
        assert document["complete"], document["problems"]
    # QEMU 7.2 has no table of mappings to offer, and nothing else leads to mmapped blocks: then that is said
    for look in seen.at(STUB):
        document = look.json("mmapped")
        assert document["expected"]["chunks"] == seen.truth["mallinfo"]["hblks"] > 0
        assert (document["match"], document["complete"]) == (False, False)


def ranges_of(document: dict[str, Any]) -> list[tuple[int, int]]:
    return sorted((int(address, 16), size) for arena in document["arenas"] for address, size in arena["madvise_ranges"])


def tells_the_break(machine: Machine, symbols: bool) -> bool:
    """A libc.so.6 exports __curbrk, stripped or not. A stripped static program has the end of a mapping to go by, which
    no stub tells."""
    return symbols or not machine.static


@pytest.mark.parametrize(("machine", "scenario"), [pytest.param(*each.values[0], id=each.id) for each in subjects()])
def test_malloc_trim_does_what_was_foretold(machine: Machine, scenario: Scenario) -> None:
    """Over the stub, against the system calls of the guest's malloc_trim."""
    with Emulated(machine, scenario) as subject:
        (by_symbols,), (by_scan,) = over_stub(machine, subject.program, subject.socket, [TRIM])
        subject.let_go()
        happened = subject.trim()
        assert subject.send("check") == "intact"
    assert happened.reply == f"trimmed {int(bool(happened.madvised or happened.break_fell))}"
    for symbols, document in ((True, by_symbols.json()), (False, by_scan.json())):
        assert ranges_of(document) == happened.madvised
        moves = [arena["brk_bytes"] for arena in document["arenas"]]
        if None in moves:
            assert not tells_the_break(machine, symbols)
            assert (document["complete"], document["totals"]["release_bytes"]) == (False, None)
        else:
            assert document["complete"], document["problems"]
            assert sum(moves) == happened.break_fell
    assert happened.others == []


def test_every_image_gives_the_same_ranges(seen: Seen) -> None:
    """As the stub does, of which the test above proves that it is right."""
    over_stub = next(each for each in seen.at(STUB) if each.symbols).outcomes[TRIM].json()
    for look in seen.looks:
        document = look.outcomes[TRIM].json()
        assert document["arenas"]
        keys = ["madvise_ranges", "madvise_bytes", "tops_bytes", "tops_range"]
        if look.image != STUB or tells_the_break(seen.machine, look.symbols):
            assert document["complete"], document["problems"]
            keys.append("brk_bytes")
        for key in keys:
            assert [arena[key] for arena in document["arenas"]] == [arena[key] for arena in over_stub["arenas"]], key


def test_blocks_of_a_big_endian_machine() -> None:
    """Classes by RTTI, containers, links, text, where the highest byte comes first."""
    machine = next(each for each in MACHINES if each.byte_order == "big")
    # static, as QEMU's cores have no names of libraries; stripped
    if not (machine.folder / "kinds.static").exists():
        give_up(f"{machine.triple}-g++ is not installed")
    with Emulated(machine, Scenario("kinds", "kinds.static"), stub=False) as subject:
        planted = planted_by(subject.folder / "truth")
        found = kinds_by_block(Session(ShellDoor(str(subject.guest_core()), How("none")).target()))
    assert len(planted) > 30 * MANY
    assert set(planted) <= set(found)
    wrong = Counter((what, found[block]) for block, what in planted.items() if not is_right(what, found[block]))
    assert not [each for each in wrong if each[1].kind in CLAIMING]
    assert sum(wrong.values()) <= len(planted) // 20, wrong
