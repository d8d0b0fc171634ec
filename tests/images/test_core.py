"""Cores that the kernel and gcore wrote, against what the process and /proc said while it lived."""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import pytest
from looks import give_up

from arenascope.errors import MemoryReadError, TargetError
from arenascope.sources.core import CoreImage

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(params=["kernel", "gdb"])
def core(request, dumped):
    with CoreImage(str(getattr(dumped, request.param))) as image:
        yield image


def test_identity(core, dumped):
    assert core.pid == dumped.pid
    assert core.process_name == "subject"
    # gcore knows the arguments only of what it started itself
    expected = ["--not=environment", "x=y"] if core.made_by == "kernel" else []
    assert core.arguments.split()[1:] == expected
    assert (core.pointer_size, core.byte_order, core.page_size) == (8, "little", PAGE)
    assert core.truncated is None
    assert core.made_by == ("kernel" if core.path == str(dumped.kernel) else "gcore")


def test_memory_is_what_the_process_had(core, dumped):
    address = dumped.facts["block"] - 16
    assert core.read(address, len(dumped.block)) == dumped.block
    assert core.read(address + 5, 0) == b""
    assert core.read(dumped.facts["touched"] + 100, 1) == b"x"


def test_auxv_and_environment(core, dumped):
    words = struct.unpack(f"{len(dumped.auxv) // 8}Q", dumped.auxv)
    truth = dict(zip(words[0::2], words[1::2]))
    del truth[0]
    assert core.auxv == truth
    assert core.environment() == {
        "LANG": "C", "GLIBC_TUNABLES": "glibc.malloc.arena_max=3:glibc.malloc.tcache_count=5", "EMPTY": ""}


def test_threads(core, dumped):
    threads = {thread.tid: thread for thread in core.threads()}
    assert list(threads) == sorted(threads)
    facts = dumped.facts
    assert set(threads) == {dumped.pid, facts["tid_first"], facts["tid_second"]}
    assert threads[dumped.pid].thread_pointer == facts["tp_main"]
    for name in ("first", "second"):
        thread = threads[facts[f"tid_{name}"]]
        assert thread.thread_pointer == facts[f"tp_{name}"]
        assert 0 < facts[f"sp_{name}"] - thread.stack_pointer < 4096
    assert core.registers()[0].tid in threads


def test_regions_are_the_mappings(core, dumped):
    regions = {region.start: region for region in core.regions()}
    assert list(regions) == sorted(regions)
    for start, end, permissions, path in dumped.maps:
        if start >= 1 << 63 or path.startswith("[vvar"):
            continue
        if core.made_by == "gcore" and start not in regions:
            # it leaves out what cannot be read, where it is not a file's, and what MADV_DONTDUMP marks
            assert permissions == "---p" or start == dumped.facts["partly"] + 16 * PAGE
            assert not path
            continue
        region = regions[start]
        assert region.end == end
        if path.startswith("/") or path in ("[stack]", "[vdso]"):
            assert region.path == path.replace(" (deleted)", "")
        if region.present and permissions != "---p":  # gcore claims that it may be read
            assert ("r" if region.readable else "-") == permissions[0]
            assert ("w" if region.writable else "-") == permissions[1]
            assert core.read(start, end - start)
    libc = [region for region in core.regions() if region.path.endswith("libc.so.6")]
    assert libc[0].offset == 0
    assert libc[1].offset == libc[0].size
    assert regions[dumped.facts["shared"]].shared


def test_what_was_left_out_is_not_zero(dumped):
    with CoreImage(str(dumped.kernel)) as core:
        for address in (0, 8, dumped.facts["untouched"], dumped.facts["partly"] + 20 * PAGE, 1 << 64, -8):
            with pytest.raises(MemoryReadError):
                core.read(address, 8)
        text = next(region for region in core.regions() if region.executable and region.path.endswith("libc.so.6"))
        assert not text.present
        with pytest.raises(MemoryReadError) as caught:
            core.read(text.start, 16)
        assert (caught.value.address, caught.value.size) == (text.start, 16)
        # a file's first page is dumped for its build-id, the mapping as a whole is not there
        first = next(region for region in core.regions() if region.path.endswith("libc.so.6"))
        assert core.read(first.start, 4) == b"\x7fELF"
        assert not first.present
        with pytest.raises(MemoryReadError):
            core.read(first.start + PAGE - 4, 8)
        with pytest.raises(MemoryReadError):
            core.read(dumped.facts["block"], -1)


def test_reads_cross_from_one_segment_into_the_next(dumped):
    with CoreImage(str(dumped.kernel)) as core:
        pairs = [(a, b) for a, b in zip(core.regions(), core.regions()[1:])
                 if a.end == b.start and a.present and b.present]
        assert pairs
        for first, second in pairs:
            joined = core.read(first.end - 6, 12)
            assert joined == core.read(first.end - 6, 6) + core.read(second.start, 6)


def test_window(core, dumped):
    address = dumped.facts["block"]
    view, base, limit = core.window(address)
    assert base <= address < limit
    assert len(view) == limit - base
    assert bytes(view[address - base : address - base + 100]) == b"m" * 100
    assert core.window(8) is None
    assert core.window(address)[0] is view
    del view


def test_truncated(dumped, tmp_path):
    with CoreImage(str(dumped.kernel)) as whole:
        segment = max(whole.segments, key=lambda s: s.file_size)
        cut = segment.offset + segment.file_size // 2 // PAGE * PAGE
        expected = max(s.offset + s.file_size for s in whole.elf.segments)
    path = tmp_path / "cut"
    with open(dumped.kernel, "rb") as file:
        path.write_bytes(file.read(cut))
    with CoreImage(str(path)) as core:
        assert core.truncated.actual == cut
        assert core.truncated.expected == expected
        middle = segment.address + cut - segment.offset
        assert (middle, segment.address + segment.file_size) in core.truncated.missing
        assert len(core.read(middle - 8, 8)) == 8
        for address in (middle, middle - 4):
            with pytest.raises(MemoryReadError):
                core.read(address, 8)
        region = next(region for region in core.regions() if region.start == segment.address)
        assert not region.present
        assert core.window(middle) is None
        assert len(core.threads()) == 3


def test_cut_before_any_memory(dumped, tmp_path):
    with CoreImage(str(dumped.kernel)) as whole:
        first = min(s.offset for s in whole.segments if s.file_size)
    data = dumped.kernel.read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(data[:first])
    with CoreImage(str(path)) as cut:
        assert len(cut.threads()) == 3
        assert f"{first:,} bytes of {len(data):,}" in cut.shortage()
        assert not any(region.present for region in cut.regions())
    path.write_bytes(data[:100])
    with pytest.raises(TargetError, match="cut short"):
        CoreImage(str(path))


@pytest.mark.parametrize(("content", "words"), [
    (b"", "is empty"),
    (b"hello world, no core", "not an ELF file"),
    (b"\x28\xb5\x2f\xfd....", r"zstd.*zstd -d"),
    (b"\x04\x22\x4d\x18....", r"lz4.*lz4 -d"),
    (b"\x1f\x8b\x08....", r"gzip.*gzip -dc"),
    (b"\xfd7zXZ\0....", r"xz.*xz -dc"),
    (b"MDMP....", "minidump"),
    (b"\x7fELF\x07\x07" + bytes(60), "damaged ELF header"),
])
def test_what_is_no_core_says_what_it_is(tmp_path, content, words):
    path = tmp_path / "core"
    path.write_bytes(content)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(TargetError) as caught:
        CoreImage(str(path))
    assert re.search(words, str(caught.value))
    assert len(os.listdir("/proc/self/fd")) == before


def test_other_files(program, tmp_path):
    with pytest.raises(TargetError, match="not a core"):
        CoreImage(str(program))
    with pytest.raises(TargetError, match="No such file"):
        CoreImage(str(tmp_path / "absent"))
    with pytest.raises(TargetError, match="not a regular file"):
        CoreImage(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TargetError, match="not a regular file"):
        CoreImage(str(tmp_path / "pipe"))


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


def test_big_environment(program, start):
    environment = {f"KEY_{index}": "v" * 5000 for index in range(150)}
    with CoreImage(str(start(program, environment=environment).kernel_core())) as core:
        assert core.environment() == environment


def test_without_anonymous_memory(program, start, build):
    """coredump_filter 0x10: opens, tells its mappings, holds no heap."""
    wrapper = build(r"""
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    FILE *f = fopen("/proc/self/coredump_filter", "w"); fprintf(f, "0x10"); fclose(f);
    execv(argv[1], argv + 1); return 1;
}""")
    subject = start(wrapper, str(program))
    with CoreImage(str(subject.kernel_core())) as core:
        with pytest.raises(MemoryReadError):
            core.read(subject.facts["block"], 8)
        assert core.environment() is None
        assert not next(r for r in core.regions() if r.contains(subject.facts["block"])).present


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


def test_i386(build, start):
    """A 32-bit process on this kernel: its TLS base is in NT_386_TLS only."""
    program = build(I386, "-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-pie", "-no-pie",
                    "-fno-stack-protector")
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
        assert core.process_name == "program"
        assert core.environment()["LANG"] == "C"
        assert any(region.path == str(program) for region in core.regions())


FOREIGN = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __powerpc64__
register void *thread_pointer __asm__("r13");  /* gcc 12 has no builtin for it here */
#define THREAD_POINTER thread_pointer
#else
#define THREAD_POINTER __builtin_thread_pointer()
#endif
static pthread_barrier_t barrier;
static void *run(void *unused) {
    char here;
    printf("sp_first %p\ntp_first %p\n", (void *)&here, THREAD_POINTER);
    pthread_barrier_wait(&barrier);
    for (;;) pause();
}
int main(void) {
    char here, *block = malloc(1000);
    pthread_t thread;
    memset(block, 'm', 1000);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, run, NULL);
    pthread_barrier_wait(&barrier);
    printf("block %p\nsp_main %p\ntp_main %p\nready 0\n", block, (void *)&here, THREAD_POINTER);
    fflush(stdout);
    for (;;) pause();
}"""


@pytest.mark.parametrize(("compiler", "machine", "pointer_size", "byte_order", "tells_tp"), [
    ("s390x-linux-gnu-gcc", "s390x", 8, "big", True),
    ("aarch64-linux-gnu-gcc", "aarch64", 8, "little", False),  # QEMU writes no NT_ARM_TLS
    ("arm-linux-gnueabihf-gcc", "arm", 4, "little", False),
    ("powerpc64le-linux-gnu-gcc", "ppc64le", 8, "little", True),
])
def test_other_machines(compiler, machine, pointer_size, byte_order, tells_tp, start, tmp_path):
    """Cores that QEMU writes of the program it runs; made by no kernel, so their holes prove nothing."""
    if not shutil.which(compiler) or not shutil.which(f"qemu-{machine}"):
        give_up(f"{compiler} or qemu-{machine} is not installed")
    (tmp_path / "f.c").write_text(FOREIGN)
    program = tmp_path / "f"
    done = subprocess.run([compiler, "-static", "-no-pie", "-pthread", str(tmp_path / "f.c"), "-o", str(program)],
                          capture_output=True, text=True)
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
