"""Whose heap a mapping is: what a runtime says of its own objects, and what it has mapped besides."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Callable, Iterator, Sequence

import pytest
from looks import give_up
from programs import halfway, java
from subjects import Started

from arenascope.blocks.graph.blocks import live_blocks
from arenascope.blocks.graph.roots import Root, find_roots
from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session

PYTHON = """
import ctypes, mmap, sys
kept = [(number, str(number)) for number in range(100000)]
apart = [mmap.mmap(-1, 1 << 20) for _ in range(4)]
for each in apart:
    each.write(id(kept).to_bytes(8, "little") * 1000)
print(*(id(each) for each in kept[::1000]), "-", *(ctypes.addressof(ctypes.c_char.from_buffer(each)) for each in apart))
sys.stdout.flush()
sys.stdin.read()
"""
RUBY = """
require "objspace"
require "fiddle"
kept = (0...100000).map { |number| [number, number.to_s] }
mmap = Fiddle::Function.new(Fiddle.dlopen(nil)["mmap"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_INT,
  Fiddle::TYPE_INT, Fiddle::TYPE_INT, Fiddle::TYPE_LONG], Fiddle::TYPE_VOIDP)
apart = (0...4).map { mmap.call(0, 1 << 20, 3, 0x22, -1, 0) }
apart.each { |each| each[0, 8000] = "\\x10\\0\\0\\0\\0\\0\\0\\0" * 1000 }
objects = kept.each_slice(1000).map { |each| ObjectSpace.dump(each[0])[/"address":"(\\w+)"/, 1].hex }
puts [*objects, "-", *apart.map(&:to_i)].join(" ")
$stdout.flush
$stdin.read
"""
GO = """
package main

/*
#include <sys/mman.h>
#include <string.h>
static void *apart(void) { void *p = mmap(0, 1 << 20, 3, 0x22, -1, 0); memset(p, 1, 8000); return p; }
*/
import "C"
import ("fmt"; "os"; "runtime")

func main() {
	kept := []*[4]int{}
	for number := 0; number < 100000; number++ { kept = append(kept, &[4]int{number}) }
	for number := 0; number < 100000; number += 1000 { fmt.Printf("%d ", kept[number]) }
	fmt.Print("- ")
	for number := 0; number < 4; number++ { fmt.Printf("%d ", uintptr(C.apart())) }
	fmt.Println()
	os.Stdin.Read(make([]byte, 1))
	runtime.KeepAlive(kept)
}
""".replace("kept[number]) }", "uintptr(unsafe.Pointer(kept[number]))) }").replace('"runtime")', '"runtime"; "unsafe")')


def python(folder: Path) -> Sequence[object]:
    (folder / "it.py").write_text(PYTHON)
    return ["/usr/bin/python3", folder / "it.py"]


def ruby(folder: Path) -> Sequence[object]:
    (folder / "it.rb").write_text(RUBY)
    return ["ruby", folder / "it.rb"]


def go(folder: Path) -> Sequence[object]:
    (folder / "it.go").write_text(GO)
    env = {**os.environ, "HOME": str(folder), "CGO_ENABLED": "1"}
    subprocess.run(["go", "build", "-o", folder / "it", folder / "it.go"], check=True, env=env, cwd=folder)
    return [folder / "it"]


@pytest.fixture
def stands(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[int, list[list[int]]]]:
    """A process that waits: where its objects are, and what else it has mapped."""
    program: Callable[[Path], Sequence[object]] = request.param
    if shutil.which(program.__name__) is None and program is not python:
        pytest.skip(f"{program.__name__} is not installed")
    with Started(*program(tmp_path)) as process:
        objects, apart = process.said.split("-")
        yield process.pid, [[int(each) for each in some.split()] for some in (objects, apart)]


def roots_of(pid: int) -> Sequence[Root]:
    os.kill(pid, signal.SIGSTOP)
    try:
        session = Session(ShellDoor(str(pid), How("none")).target())
        return find_roots(session, live_blocks(session)).ranges
    finally:
        os.kill(pid, signal.SIGCONT)


def kind_at(roots: Sequence[Root], address: int) -> tuple[str, str]:
    return next(((each.kind, each.path) for each in roots if each.start <= address < each.end), ("", ""))


@pytest.mark.parametrize(
    ("stands", "name"),
    [(python, "CPython"), (ruby, "Ruby"), (go, "Go")],
    indirect=["stands"],
    ids=["python", "ruby", "go"],
)
def test_whose_heap(stands: tuple[int, list[list[int]]], name: str) -> None:
    pid, (objects, apart) = stands
    roots = roots_of(pid)
    assert (len(objects), len(apart)) == (100, 4)
    assert {kind_at(roots, each) for each in objects} == {("runtime", name)}
    assert {kind_at(roots, each)[0] for each in apart} == {"mapping"}


def test_the_heap_of_a_jvm(tmp_path: Path) -> None:
    """As jcmd tells it."""
    if shutil.which("jcmd") is None:
        give_up("no JDK is installed: jcmd tells where the heap is")
    running = java(tmp_path)
    try:
        halfway(running)
        said = subprocess.run(["jcmd", str(running.pid), "GC.heap_info"], capture_output=True, text=True, check=True)
        places = [int(each, 16) for each in re.findall(r"\[(0x[0-9a-f]+),", said.stdout)]
        roots = roots_of(running.pid)
        assert {kind_at(roots, each) for each in places} & {("runtime", "JVM")}
        heap = [each for each in roots if each.kind == "runtime"]
        assert sum(each.end - each.start for each in heap) == 64 << 20
        assert all(kind_at(roots, each) in (("runtime", "JVM"), ("mapping", "")) for each in places)
    finally:
        running.end()
