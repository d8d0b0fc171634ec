"""Runtimes, compilers and tools: whom they hold most by, held against their own figures."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Sequence

from own_figures import PAGES, Owner, called, figures_of, owners_of, size_said_by, started
from programs import Env, Start, blocked, cc1plus, gdb, go, history, rust, script
from running import Running


@figures_of("git")
def of_git(largest: list[Owner]) -> set[str]:
    """Without room for bases of deltas nobody keeps them; an array has room for each object that is to be packed."""
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        history(Path(folder)).end()
        base = ("git", "-C", Path(folder) / "repository")
        listed = subprocess.run([*base, "rev-list", "--objects", "--all"], capture_output=True, check=True)
        objects = listed.stdout.count(b"\n")
        without, bases, packed = (
            git_owners(Path(folder), [*base, *words])
            for words in (
                ("-c", "core.deltaBaseCacheLimit=1", "log", "-p", "main"),
                ("log", "-p", "main"),
                ("pack-objects", "--all", "--stdout", "-q", "--revs"),
            )
        )
    assert sum(each["blocks"] for each in without if "(packfile.c)" in (each["name"] or "")) < 20
    (cache,) = (each for each in bases if "(packfile.c)" in (each["name"] or "") and each["blocks"] > 20)
    # to_pack has room for (0 + 1024) * 3 / 2, and its index for each twice, of 4 bytes
    room = 1024 * 3 // 2
    assert objects < room
    entries, index = [each for each in packed if "(builtin/pack-objects.c)" in (each["name"] or "")][:2]
    assert entries["blocks"] == index["blocks"] == 1
    assert 64 * room < entries["held_bytes"] < 160 * room
    places = 1 << (3 * objects - 1).bit_length()
    assert 0 < index["held_bytes"] - 4 * places <= 16
    # it is the same cache that packing reads deltas by; how much it keeps at that moment differs
    assert cache["name"] in [each["name"] for each in packed]
    assert packed[0]["held_bytes"] > cache["held_bytes"]
    # stdio has a buffer as large as its pipe asks for
    (stdout,) = (each for each in bases if each["name"] == "_IO_2_1_stdout_")
    assert 0 < stdout["held_bytes"] - size_asked_for_by_a_pipe() <= 16
    return {called(cache), called(stdout)}


def size_asked_for_by_a_pipe() -> int:
    ends = os.pipe()
    try:
        return os.fstat(ends[1]).st_blksize
    finally:
        for each in ends:
            os.close(each)


def git_owners(folder: Path, words: Sequence[object]) -> list[Owner]:
    running = Running(folder, words)
    try:
        blocked(running)
        return owners_of(running.pid)
    finally:
        running.end()


@figures_of("rust")
def of_rust(largest: list[Owner]) -> set[str]:
    """Each thread keeps one in three of what it has made, on its stack alone."""
    said = []
    for number in range(4):
        seed, sizes = number + 1, []
        for _ in range(12000):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            sizes.append(20 + (seed >> 33) % 3000)
        said.append(sum(sizes[2::3]))
    with started(rust) as running:
        running.await_line()
        owners = owners_of(running.pid)
    stacks = sorted((each for each in owners[:4] if each["kind"] == "stack"), key=lambda each: each["tid"])
    assert len({each["tid"] for each in stacks}) == 4
    for size, each in zip(said, stacks):
        assert size <= each["held_bytes"] < 1.1 * size
    return {"stack"}


ROOTS = """
gc_disable();
for ($number = 0; $number < %d; $number++) {
    $kept[] = [$number];
    $once = &$kept[$number];
    unset($once);
}
echo gc_status()["roots"], "\\n";
sleep(3600);
"""


@figures_of("php")
def of_php(largest: list[Owner]) -> set[str]:
    """Its collector notes 16384 roots, or twice as many, and so on, a word each, in one block."""
    names = set()
    for count in (20000, 40000):
        with started(script("php", "-r", ROOTS % count)) as running:
            said = size_said_by(running)
            owners = owners_of(running.pid)
        assert said >= count
        room = 8 << max(14, (said - 1).bit_length())
        (noted,) = (each for each in owners[:3] if each["blocks"] == 1)
        assert 0 < noted["held_bytes"] - room <= PAGES
        names.add(called(noted))
    assert len(names) == 1
    return names


# runtimes: each says how much it was given, or what it keeps

PYTHON = """
import sys, time
kept = [bytes(1000 + number % 1000) for number in range(20000)]
print(sum(map(sys.getsizeof, kept)), flush=True)
time.sleep(3600)
"""
RUBY = """
require "objspace"
kept = (0...20000).map { |number| "x" * (1000 + number % 1000) }
puts kept.sum { |each| ObjectSpace.memsize_of(each) - 40 }
$stdout.flush
sleep 3600
"""
PERL = """
my @kept = map { "x" x (1000 + $_ % 1000) } 0 .. 19999;
my $sum = 0; $sum += length for @kept;
$| = 1; print "$sum\\n"; sleep 3600;
"""
NODE = """
const kept = [];
for (let number = 0; number < 20000; number++) kept.push(new ArrayBuffer(1000 + number % 1000));
global.kept = kept;
console.log(process.memoryUsage().arrayBuffers);
setInterval(() => {}, 1000);
"""
JAVA = """
import java.lang.management.*; import java.nio.*; import java.util.*;
public class Kept {
    static List<ByteBuffer> kept = new ArrayList<>();
    public static void main(String[] words) throws Exception {
        for (int number = 0; number < 20000; number++) kept.add(ByteBuffer.allocateDirect(1000 + number % 1000));
        for (BufferPoolMXBean each : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class))
            if (each.getName().equals("direct")) System.out.println(each.getTotalCapacity());
        Thread.sleep(3600000);
    }
}
"""
GO = """
package main

// #include <stdlib.h>
import "C"
import ("fmt"; "runtime"; "time"; "unsafe")

type kept struct { text unsafe.Pointer }

func main() {
	all, sum := []*kept{}, 0
	for number := 0; number < 20000; number++ {
		size := 1000 + number%1000
		all = append(all, &kept{C.malloc(C.size_t(size))})
		sum += size
	}
	fmt.Println(sum)
	time.Sleep(time.Hour)
	runtime.KeepAlive(all)
}
"""
SQLITE = """
CREATE TABLE t (a, b);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO t SELECT i, hex(zeroblob(500 + i % 500)) FROM n;
.stats on
SELECT 1;
.system while kill -0 $PPID 2>&-; do sleep 1; done
"""


def written(file: str, text: str, *words: str) -> Start:
    def start(folder: Path, env: Env = None) -> Running:
        (folder / file).write_text(text)
        return script(*words)(folder, env)

    return start


def go_of_its_own(folder: Path, env: Env = None) -> Running:
    (folder / "kept.go").write_text(GO)
    return go(folder, env, folder / "kept.go")


RUNTIMES = {
    "python": (written("kept.py", PYTHON, "/usr/bin/python3", "kept.py"), "CPython"),
    "ruby": (written("kept.rb", RUBY, "ruby", "kept.rb"), "Ruby"),
    "perl": (written("kept.pl", PERL, "perl", "kept.pl"), "PL_"),
    "java": (
        written("Kept.java", JAVA, "java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "Kept.java"),
        "JVM",
    ),
    "go": (go_of_its_own, "Go"),
    "sqlite": (written("kept.sql", SQLITE, "sqlite3", "-batch", ":memory:", ".read kept.sql"), "sqlite3+"),
}


def of_what_a_runtime_keeps(name: str, largest: list[Owner]) -> set[str]:
    start, owner = RUNTIMES[name]
    with started(start) as running:
        size = size_said_by(running)
        owners = owners_of(running.pid)
    assert owner in owners[0]["name"]
    assert size > 10 << 20
    assert size <= owners[0]["held_bytes"] < 1.15 * size + (4 << 20)
    return {called(owners[0])}


for each in RUNTIMES:
    figures_of(each)(partial(of_what_a_runtime_keeps, each))


# what else they hold

MAP = re.compile(r"# arena map (?:mid|bot) nodes *= *(\d+)|# bytes lost to arena map (?:mid|bot) *= *([\d,]+)")


def of_the_map_of_arenas(owners: Sequence[Owner], running: Running) -> set[str]:
    """CPython counts the nodes of the tree in which it finds its arenas, from 3.10 on."""
    said = MAP.findall((running.folder / "messages.txt").read_text())
    if not said:
        return set()
    count, size = (sum(int(each[at].replace(",", "") or 0) for each in said) for at in (0, 1))
    found = [each for each in owners if each["blocks"] == count and 0 < each["held_bytes"] - size <= PAGES * count]
    assert len(found) == 1, (count, size, owners[:5])
    return {called(found[0])}


TELLS = "import sys; sys._debugmallocstats(); "


@figures_of("python")
def of_pythons_arenas(largest: list[Owner]) -> set[str]:
    with started(written("kept.py", TELLS + PYTHON, "/usr/bin/python3", "kept.py")) as running:
        size_said_by(running)
        return of_the_map_of_arenas(owners_of(running.pid), running)


def gdb_that_tells(folder: Path, file: str) -> Running:
    gdb(folder).end()
    (folder / "little.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-o", "little", "little.c"], check=True, cwd=folder)
    (folder / "tells.py").write_text(
        "import gdb\nopen('statistics', 'w').write(gdb.execute('maint print statistics', to_string=True))\n"
        + TELLS
        + PYTHON
    )
    return Running(folder, ["gdb", "-nx", "-q", "-readnow", file, "-ex", "source tells.py"])


@figures_of("gdb")
def of_gdb(largest: list[Owner]) -> set[str]:
    """It has an obstack for each file that it has read, and one for texts: of a larger file what holds them is larger
    by as much. CPython keeps in it what it keeps anywhere."""
    said, held = [], []
    for file in ("little", "some"):
        with started(lambda folder, file=file: gdb_that_tells(folder, file)) as running:
            kept = size_said_by(running)
            owners = owners_of(running.pid)
            text = (running.folder / "statistics").read_text()
            names = of_the_map_of_arenas(owners, running)
        assert (owners[0]["kind"], owners[0]["name"]) == ("runtime", "CPython")
        assert kept <= owners[0]["held_bytes"] < 1.15 * kept + (4 << 20)
        said.append(sum(map(int, re.findall(r"Total memory used for (?:objfile obstack|string cache): (\d+)", text))))
        held.append({called(each): each["held_bytes"] for each in owners})
    grown = said[1] - said[0]
    assert grown > 500 << 10
    # what it allocates by itself for a file it does not count: tables of lines, of symbols by name
    more = {name: size - held[0].get(name, 0) for name, size in held[1].items()}
    found = [name for name, size in more.items() if grown <= size <= 1.3 * grown]
    assert len(found) == 1, (grown, more)
    return {"CPython", *found, *names}


REPORTED = re.compile(r"^\d+ +\S+ +\S+ +(\d+)([kM ])", re.MULTILINE)
F_SETPIPE_SZ = 1031
"""As in <linux/fcntl.h>: the fcntl of Python 3.9 does not have it."""
ROOM = 4096
"""Of a pipe, which takes the part of the report that is needed, and not all of it."""


def cc1plus_that_reports(folder: Path) -> Running:
    """It waits for who reads the rest of its report."""
    compiling = cc1plus(folder)
    compiling.end()
    words = [str(each) for each in compiling.process.args[:-3]]
    (folder / "small.cc").write_text("".join((folder / "big.cc").read_text().splitlines(True)[:13]))
    command = [*words, "-fmem-report", "small.cc", "-o", "small.s"]
    running = Running(folder, ["sh", "-c", f"until [ -e small ]; do sleep 0.1; done; exec {' '.join(command)} 2>&1"])
    assert running.process.stdout is not None
    fcntl.fcntl(running.process.stdout.fileno(), F_SETPIPE_SZ, ROOM)
    (folder / "small").touch()
    return running


@figures_of("cc1plus")
def of_cc1plus(largest: list[Owner]) -> set[str]:
    """Its collector says what descriptions of its pages take; two arrays have a word for each page. Identifiers have
    slots."""
    with started(cc1plus_that_reports) as running:
        blocked(running)
        owners = owners_of(running.pid)
        assert running.process.stdout is not None
        text = os.read(running.process.stdout.fileno(), ROOM).decode()
    collector, _, identifiers = text.partition("String pool")
    units = {" ": 1, "k": 1 << 10, "M": 1 << 20}
    rows = [(int(size), units[unit]) for size, unit in REPORTED.findall(collector)]
    least = sum(size * unit for size, unit in rows)
    most = least + sum(unit - 1 for _, unit in rows)
    pages = owners[0]["blocks"] - 1
    room = 8 << (pages - 1).bit_length()
    alike = [each for each in owners if each["blocks"] == 1 and 0 < each["held_bytes"] - room <= PAGES]
    assert len(alike) == 1, owners[:6]
    descriptions = owners[0]["held_bytes"] - alike[0]["held_bytes"]
    # malloc rounds up
    assert least <= descriptions <= most + 24 * pages
    slots = re.search(r"slots:\s+(\d+)", identifiers)
    assert slots is not None, text
    (table,) = (each for each in owners if each["name"] == "ident_hash")
    assert 0 < table["held_bytes"] - 8 * int(slots[1]) <= 2 * PAGES
    return {called(owners[0]), called(alike[0]), "ident_hash"}


@figures_of("java")
def of_javas_symbols(largest: list[Owner]) -> set[str]:
    """A JVM that keeps an account of its memory counts blocks of its tables of symbols and texts."""
    words = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:NativeMemoryTracking=summary"]
    with started(written("Kept.java", JAVA, *words, "Kept.java")) as running:
        size_said_by(running)
        asked = ["jcmd", str(running.pid), "VM.native_memory", "summary"]
        text = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        (tables,) = (each for each in owners_of(running.pid) if each["name"] == "_local_table")
    said = re.search(r"- +Symbol \(.*\n *\(malloc=(\d+)KB #(\d+)\)", text)
    assert said is not None, text
    size, count = int(said[1]) << 10, int(said[2])
    # a few are found by others as well; each has a header of this account, and of malloc
    assert 0.97 * count <= tables["blocks"] <= 1.03 * count
    assert 0.97 * size <= tables["held_bytes"] <= 1.03 * (size + 64 * count)
    return {"_local_table"}


COMPRESSED = """
const zlib = require("zlib");
const kept = [];
const count = 300;
for (let number = 0; number < count; number++) {
    zlib.deflate(Buffer.alloc(200000, "the same words over and over "), { level: 6 }, (error, packed) => {
        if (kept.push(Buffer.concat([packed, Buffer.alloc(200000)])) == count)
            console.log(kept.reduce((sum, each) => sum + each.length, 0));
    });
}
global.kept = kept;
setInterval(() => {}, 1000);
"""


@figures_of("node")
def of_nodes_buffers(largest: list[Owner]) -> set[str]:
    """Its heap lies so low that a hash, which OpenSSL keeps beside each name, may be an address in it: by chance such a
    table is nearer to some of the buffers than node's platform is."""
    with started(written("kept.js", NODE, "node", "kept.js")) as running:
        size = size_said_by(running)
        owners = owners_of(running.pid)
    assert size > 10 << 20
    assert size <= held_by_several(owners) < 1.15 * size + (4 << 20)
    return {called(each) for each in owners if each["held_bytes"] > 1 << 20 and called(each).startswith("node::")}


def held_by_several(owners: Sequence[Owner]) -> int:
    """Whoever it is that leads to a part."""
    return sum(each["held_bytes"] for each in owners if each["held_bytes"] > 64 << 10)


@figures_of("node")
def of_nodes_several_ways(largest: list[Owner]) -> set[str]:
    """Several variables lead to its one environment, and so to all buffers: its platform, the handle by which its
    inspector wakes it. Which of them is nearest to a buffer depends on what the thread pool does."""
    with started(written("kept.js", COMPRESSED, "node", "kept.js")) as running:
        size = size_said_by(running)
        owners = owners_of(running.pid)
    slack = 6 << 20
    several = [each for each in owners if each["held_bytes"] > slack]
    assert size > 40 << 20
    # what was compressed is as large, and may not be collected yet
    assert size - slack <= held_by_several(owners) < 2 * size + slack
    return {called(each) for each in several}


@figures_of("ruby")
def of_rubys_stack(largest: list[Owner]) -> set[str]:
    """The main thread has a stack for what Ruby calls."""
    words = ["ruby", "-e", "p RubyVM::DEFAULT_PARAMS[:thread_vm_stack_size]"]
    size = int(subprocess.run(words, capture_output=True, check=True).stdout)
    blocks = [each for each in largest if 0 < each["held_bytes"] - size <= PAGES + (64 << 10)]
    return {called(each) for each in blocks if 0 < each["path"][-1]["retained_bytes"] - size <= PAGES}


@figures_of("go")
def of_a_list_in_c(largest: list[Owner]) -> set[str]:
    """load.go makes it: a pointer and a text each."""
    count = 3000
    sizes = [(16 + 20 + at % 500 + 8 + 15) // 16 * 16 for at in range(count)]
    (kept,) = (each for each in largest if each["name"] == "first")
    assert kept["blocks"] == count
    # malloc does not split off what is too small for a block
    assert sum(sizes) <= kept["held_bytes"] <= sum(sizes) + 16 * count
    return {"first"}


@figures_of("sqlite")
def of_the_file_that_it_reads(largest: list[Owner]) -> set[str]:
    """stdio has a buffer as large as the file system says, and what describes the stream."""
    size = os.stat(__file__).st_blksize
    streams = [each for each in largest if each["name"] == "_IO_list_all"]
    assert all(each["blocks"] == 2 and 0 < each["held_bytes"] - size <= 600 for each in streams)
    return {called(each) for each in streams}
