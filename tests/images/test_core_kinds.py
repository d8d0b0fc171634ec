"""Cores of other machines, of 32 bits, with more mappings than a header counts, and without their environment."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from looks import give_up

from arenascope.base.errors import MemoryReadError
from arenascope.sources.core.core_image import CoreImage


@pytest.mark.full
def test_more_mappings_than_a_header_counts(build, start):
    """65,536 program headers and more: the number moves to section header 0 (PN_XNUM)."""
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    if limit < 65530:
        pytest.skip(f"vm.max_map_count is {limit}")
    source = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    long count = atol(argv[1]);
    char *m = mmap(0, count * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < count; i += 2) { m[i * 4096] = 'e'; if (mprotect(m + i * 4096, 4096, PROT_READ)) break; }
    printf("memory %p\nready 0\n", m); fflush(stdout); pause();
}"""
    subject = start(build(source), str(limit + 100))
    path = subject.kernel_core()
    with CoreImage(str(path)) as core:
        header = subprocess.run(["readelf", "-hW", str(path)], capture_output=True, text=True, check=True).stdout
        count = int(re.search(r"Number of program headers: +(?:65535 \()?(\d+)", header)[1])
        assert len(core.elf.segments) == count
        assert core.made_by == "kernel"
        assert core.read(subject.facts["memory"] + 40 * 4096, 1) == b"e"
    path.unlink()


def test_overwritten_environment_is_unknown(build, start):
    """setproctitle as nginx and postgres do it: the strings are gone, which is not an empty environment."""
    source = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv, char **envp) {
    for (char **e = envp; *e; e++) memset(*e, 'T', strlen(*e));
    printf("ready 0\n"); fflush(stdout); pause();
}"""
    program = build(source)
    with CoreImage(str(start(program).kernel_core())) as core:
        assert core.environment() is None
    with CoreImage(str(start(program, environment={}).kernel_core())) as core:
        assert core.environment() == {}


@pytest.mark.parametrize("arguments", [[], ["--library-path", "/lib"], ["--inhibit-cache"]])
def test_started_by_way_of_ld_so(program, start, arguments):
    """`ld.so PROGRAM` moves all below the strings down by its own arguments, and corrects the auxiliary vector."""
    told = subprocess.run(["readelf", "-lW", str(program)], capture_output=True, text=True, check=True).stdout
    linker = re.search(r"program interpreter: (.*)\]", told)[1]
    environment = {"LANG": "C", "TITLE": "two words", "EMPTY": ""}
    subject = start(Path(linker), *arguments, str(program), "--a=b", environment=environment)
    with CoreImage(str(subject.kernel_core())) as core:
        assert core.environment() == environment


def test_big_environment(program, start):
    environment = {f"KEY_{index}": "v" * 5000 for index in range(150)}
    with CoreImage(str(start(program, environment=environment).kernel_core())) as core:
        assert core.environment() == environment


def test_without_anonymous_memory(without_anonymous):
    """coredump_filter 0x10: opens, tells its mappings, holds no heap."""
    block = without_anonymous.facts["block"]
    with CoreImage(str(without_anonymous.kernel_core())) as core:
        with pytest.raises(MemoryReadError):
            core.read(block, 8)
        assert core.environment() is None
        assert not next(r for r in core.regions() if r.contains(block)).present


I386 = r"""
static int call(int n, int a, int b, int c) {
    int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c) : "memory"); return r;
}
struct user_desc { unsigned entry, base, limit, flags; } desc = { -1, 0, 0xfffff, 0x51 };
int mark = 0x1234;
__thread int unused;
void _start(void) {
    desc.base = (unsigned)&mark;
    call(243, (int)&desc, 0, 0);
    __asm__ volatile("mov %0, %%gs" :: "r"(desc.entry * 8 + 3));
    call(4, 1, (int)"ready 0\n", 8);
    for (;;) call(29, 0, 0, 0);
}"""


@pytest.mark.full
def test_i386(build, start):
    """A 32-bit process on this kernel: its TLS base is in NT_386_TLS only."""
    program = build(
        I386, "-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-pie", "-no-pie", "-fno-stack-protector"
    )
    try:
        subject = start(program)
    except OSError:
        pytest.skip("this kernel runs no 32-bit programs")
    names = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    mark = int(re.search(r"^([0-9a-f]+) \w mark$", names, re.MULTILINE)[1], 16)
    with CoreImage(str(subject.kernel_core())) as core:
        assert (core.pointer_size, core.byte_order) == (4, "little")
        (thread,) = core.threads()
        assert thread.tid == core.pid == subject.pid
        assert thread.thread_pointer == mark
        stack = next(region for region in core.regions() if region.contains(thread.stack_pointer))
        assert stack.path == "[stack]"
        assert core.read(mark, 4) == b"\x34\x12\0\0"
        assert core.notes.name == "program"
        assert core.environment()["LANG"] == "C"
        assert any(region.path == str(program) for region in core.regions())


FOREIGN = Path(__file__).with_name("core_kinds_foreign.c").read_text()


@pytest.mark.full
@pytest.mark.parametrize(
    ("compiler", "machine", "pointer_size", "byte_order", "tells_tp"),
    [
        ("s390x-linux-gnu-gcc", "s390x", 8, "big", True),
        ("aarch64-linux-gnu-gcc", "aarch64", 8, "little", False),  # QEMU writes no NT_ARM_TLS
        ("arm-linux-gnueabihf-gcc", "arm", 4, "little", False),
        ("powerpc64le-linux-gnu-gcc", "ppc64le", 8, "little", True),
    ],
)
def test_other_machines(compiler, machine, pointer_size, byte_order, tells_tp, start, tmp_path):
    """Cores that QEMU writes of the program it runs; made by no kernel, so their holes prove nothing."""
    if not shutil.which(compiler) or not shutil.which(f"qemu-{machine}"):
        give_up(f"{compiler} or qemu-{machine} is not installed")
    (tmp_path / "f.c").write_text(FOREIGN)
    program = tmp_path / "f"
    done = subprocess.run(
        [compiler, "-static", "-no-pie", "-pthread", str(tmp_path / "f.c"), "-o", str(program)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"{compiler} cannot link statically here")
    subject = start(Path(shutil.which(f"qemu-{machine}")), str(program))
    subject.process.send_signal(signal.SIGABRT)
    subject.process.wait(60)
    (path,) = subject.folder.glob("qemu_*.core")
    facts = subject.facts
    with CoreImage(str(path)) as core:
        assert (core.pointer_size, core.byte_order, core.made_by) == (pointer_size, byte_order, "other")
        assert core.read(facts["block"], 1000) == b"m" * 1000
        stacks = {thread.stack_pointer: thread for thread in core.threads()}
        for name in ("main", "first"):
            near = min(stacks, key=lambda pointer: abs(facts[f"sp_{name}"] - pointer))
            assert abs(facts[f"sp_{name}"] - near) < 4096
            assert stacks[near].thread_pointer == (facts[f"tp_{name}"] if tells_tp else None)
        assert core.environment()["LANG"] == "C"
