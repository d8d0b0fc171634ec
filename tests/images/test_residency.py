"""Residency of a live process, against smaps. (VmRSS lags behind it on most kernels.)"""

from __future__ import annotations

import errno
import os
import subprocess
import time
from array import array
from pathlib import Path

import pytest

from arenascope.base.errors import TargetError
from arenascope.sources.live import pagemap
from arenascope.sources.live.pagemap import EntryReader, PagemapResidency, ScanReader
from arenascope.sources.target import PageUse

PAGE = os.sysconf("SC_PAGE_SIZE")
TOP = 1 << 47


def has_scan() -> bool:
    with open("/proc/self/pagemap", "rb") as file:
        return ScanReader(file.fileno(), os.getpid(), EntryReader(file.fileno(), os.getpid(), PAGE)).works()


@pytest.fixture(params=["scan", "entries", "entries, frames hidden"])
def readers(request, monkeypatch):
    """The same expectations of all three ways."""
    if request.param == "scan":
        if not has_scan():
            pytest.skip("this kernel has no PAGEMAP_SCAN (Linux 6.7)")
        return request.param
    monkeypatch.setattr(ScanReader, "works", lambda self: False)
    if "hidden" in request.param:
        monkeypatch.setattr(pagemap, "zero_frames", lambda page_size: frozenset())
    elif not pagemap.zero_frames(PAGE):
        pytest.skip("frame numbers are hidden from this user")
    return request.param


@pytest.fixture
def residency(readers, subject):
    residency = PagemapResidency(subject.pid, PAGE)
    yield residency
    residency.__exit__()


def test_states_of_memory(residency, subject):
    facts = subject.facts
    for name, pages, resident in (
        ("untouched", 64, 0),
        ("touched", 64, 32),
        ("looked_at", 64, 0),
        ("zeroed", 16, 16),
        ("locked", 8, 8),
        ("partly", 48, 48),
        ("cleared", 32, 24),
        ("shared", 4, 2),
    ):
        start = facts[name]
        assert residency.count(start, start + pages * PAGE) == PageUse(resident * PAGE), name
    assert residency.exact


def test_a_debuggers_reads_do_not_count(residency, subject):
    start = subject.facts["untouched"]
    before = subject.counters()[start]["Rss"]
    assert not any(subject.memory(start, 64 * PAGE))
    assert residency.count(start, start + 64 * PAGE) == PageUse(before) == PageUse(0)


def test_every_mapping_is_what_smaps_counts(residency, subject):
    for start, sizes in subject.counters().items():
        if start < TOP:
            assert residency.count(start, start + sizes["Size"]) == PageUse(sizes["Rss"], sizes["Swap"])


def test_all_of_it_is_rss(residency, subject):
    rss = sum(sizes["Rss"] for sizes in subject.counters().values())
    assert residency.count(0, TOP).resident == rss
    assert residency.count(0, 1 << 64).resident == rss
    assert sum(high - low for low, high in residency.resident_ranges(0, TOP)) == rss


def test_ranges(residency, subject):
    start = subject.facts["touched"]
    assert residency.resident_ranges(start, start + 64 * PAGE) == [
        (start + page * PAGE, start + (page + 1) * PAGE) for page in range(0, 64, 2)
    ]
    start = subject.facts["cleared"]
    assert residency.resident_ranges(start, start + 32 * PAGE) == [
        (start, start + 8 * PAGE),
        (start + 16 * PAGE, start + 32 * PAGE),
    ]
    assert residency.resident_ranges(subject.facts["untouched"], subject.facts["untouched"] + PAGE) == []


def test_part_of_a_page_counts_in_full(residency, subject):
    start = subject.facts["zeroed"]
    assert residency.count(start + 100, start + 101) == PageUse(PAGE)
    assert residency.count(start + PAGE - 1, start + PAGE + 1) == PageUse(2 * PAGE)
    assert residency.count(start, start) == PageUse(0)
    assert residency.count(start + PAGE, start) == PageUse(0)
    assert residency.resident_ranges(start + 5, start + PAGE + 5) == [(start, start + 2 * PAGE)]
    assert residency.count(1 << 63, 1 << 64) == PageUse(0)


def test_more_ranges_than_one_call_takes(readers, monkeypatch, subject):
    monkeypatch.setattr(ScanReader, "BATCH", 3)
    monkeypatch.setattr(EntryReader, "BLOCK", 5)
    residency = PagemapResidency(subject.pid, PAGE)
    start = subject.facts["touched"]
    assert residency.count(start, start + 64 * PAGE) == PageUse(32 * PAGE)
    assert len(residency.resident_ranges(start, start + 64 * PAGE)) == 32
    start = subject.facts["zeroed"]
    assert residency.resident_ranges(start, start + 16 * PAGE) == [(start, start + 16 * PAGE)]


def test_many_ranges(readers, build, start):
    """Also where their number is no multiple of what the kernel (512) and we (4096) buffer."""
    subject = start(
        build(
            r"""
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    char *m = mmap(0, 30002 * 4096L, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
    mprotect(m, 30000 * 4096L, PROT_READ | PROT_WRITE);
    madvise(m, 30000 * 4096L, MADV_NOHUGEPAGE);
    for (long i = 0; i < 30000; i += 2) m[i * 4096] = 1;
    printf("memory %p\nready 0\n", m); fflush(stdout); pause();
}""",
            "-D_GNU_SOURCE",
        )
    )
    residency = PagemapResidency(subject.pid, PAGE)
    memory = subject.facts["memory"]
    for pages in (30000, 2 * 4096, 2 * 4096 - 2, 2 * 4096 + 2, 2 * (4096 + 513), 1026, 1024):
        end = memory + pages * PAGE
        assert residency.count(memory, end) == PageUse(pages // 2 * PAGE)
        assert residency.resident_ranges(memory, end) == [
            (memory + page * PAGE, memory + (page + 1) * PAGE) for page in range(0, pages, 2)
        ]


def test_gone(readers, program, start):
    residency = PagemapResidency((subject := start(program)).pid, PAGE)
    subject.end()
    assert not (residency.count(0, TOP) or PageUse(0)).resident
    with pytest.raises(TargetError, match="has ended"):
        PagemapResidency(subject.pid, PAGE)
    residency.__exit__()
    assert residency.count(0, PAGE) is None
    assert residency.resident_ranges(0, PAGE) is None


FORKED = Path(__file__).with_name("residency_forked.c").read_text()


def test_memory_shared_with_a_child(readers, build, start):
    """Present and not exclusive, as the zero page is; where both are in one mapping and frames are hidden: a bound."""
    subject = start(build(FORKED))
    residency = PagemapResidency(subject.pid, PAGE)
    shared, mixed = subject.facts["shared"], subject.facts["mixed"]
    assert residency.count(shared, shared + 64 * PAGE) == PageUse(40 * PAGE)
    assert residency.exact
    found = residency.count(mixed, mixed + 16 * PAGE)
    if "hidden" in readers:
        assert found == PageUse(0)
        assert not residency.exact
    else:
        assert found == PageUse(8 * PAGE)
        assert residency.exact


MARKED = Path(__file__).with_name("residency_marked.c").read_text()


@pytest.mark.parametrize("frames", ["shown", "hidden"])
@pytest.mark.parametrize("guards", ["told", "untold"])
@pytest.mark.parametrize("readers", ["scan", "entries"], indirect=True)
def test_marks_of_the_kernel_are_no_swap(readers, guards, frames, monkeypatch, build, start):
    """Guards are told since Linux 6.15, in PAGEMAP_SCAN since 6.16, and exist since 6.13; frames are shown to root."""
    real_pread, real_ioctl = os.pread, pagemap.ioctl
    lost = (1 << 58 if guards == "untold" else 0) | ((1 << 55) - 1 if frames == "hidden" else 0)

    def pread(*arguments):
        return array("Q", [entry & ~lost for entry in array("Q", real_pread(*arguments))]).tobytes()

    def older_ioctl(file, request, argument, *others):
        if array("Q", argument)[8] & 1 << 8:
            raise OSError(errno.EINVAL, "no such category")
        return real_ioctl(file, request, argument, *others)

    subject = start(build(MARKED))
    if not subject.facts["guards"] or not subject.facts["watching"]:
        pytest.skip("this kernel has no guards (Linux 6.13), or no userfaultfd for this user")
    monkeypatch.setattr(os, "pread", pread)
    if guards == "untold":
        monkeypatch.setattr(pagemap, "ioctl", older_ioctl)
    residency = PagemapResidency(subject.pid, PAGE)
    for name, resident in (("guarded", 6), ("watched", 8)):
        memory = subject.facts[name]
        sizes = subject.counters()[memory]
        assert (sizes["Rss"], sizes["Swap"]) == (resident * PAGE, 0)
        assert residency.count(memory, memory + 16 * PAGE) == PageUse(resident * PAGE), name
        assert residency.resident_ranges(memory, memory + 16 * PAGE) == [(memory, memory + resident * PAGE)]
    assert residency.exact


HUGE = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile char sink;
int main(void) {
    char *m = mmap(0, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    m = (char *)(((uintptr_t)m + (2 << 20)) & ~(uintptr_t)((2 << 20) - 1));
    madvise(m, 8 << 20, MADV_HUGEPAGE);
    sink = m[0]; sink = m[2 << 20];
    m[4 << 20] = 1;
    printf("huge %p\nready 0\n", m); fflush(stdout);
    for (;;) pause();
}"""


def test_huge_pages(readers, build, start):
    """Two huge zero pages, one huge page that was written."""
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not setting.exists() or "[never]" in setting.read_text():
        pytest.skip("no transparent huge pages here")
    subject = start(build(HUGE))
    huge = subject.facts["huge"]
    sizes = next(sizes for address, sizes in subject.counters().items() if address <= huge < address + sizes["Size"])
    residency = PagemapResidency(subject.pid, PAGE)
    assert residency.count(huge, huge + (8 << 20)) == PageUse(sizes["Rss"])


def test_unprivileged_owner(build, start):
    """Frames are hidden from it; what it is told is still RSS."""
    if os.geteuid():
        pytest.skip("needs root to become somebody else")
    import arenascope

    program = build(r"""
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) { setgid(65534); setuid(65534); execv(argv[1], argv + 1); return 1; }""")
    script = f"""
import sys; sys.path.insert(0, {str(Path(arenascope.__file__).parents[1])!r})
from arenascope.sources.live import pagemap
if {{scan}} == 0: pagemap.ScanReader.works = lambda self: False
import subprocess, re, time
child = subprocess.Popen(['/bin/sleep', '100'])
while ' (sleep) S ' not in open('/proc/%d/stat' % child.pid).read(): time.sleep(0.01)
found = pagemap.PagemapResidency(child.pid, {PAGE})
rss = int(re.search('Rss:.*?([0-9]+)', open('/proc/%d/smaps_rollup' % child.pid).read())[1]) * 1024
print(found.count(0, 1 << 47).resident == rss, found.exact)
child.kill()
"""
    python = "/usr/bin/python3"
    if not os.access(python, os.X_OK):
        pytest.skip("no python that another user may run")
    for scan in (0, 1):
        done = subprocess.run([str(program), python, "-c", script.format(scan=scan)], capture_output=True, text=True)
        assert done.stdout == "True True\n", done.stderr


def test_quick_on_much_memory():
    """1 TB of addresses with little in them, then a whole gigabyte of pages: no work per page in Python."""
    residency = PagemapResidency(os.getpid(), PAGE)
    start = time.process_time()
    residency.count(0x10000000000, 0x10000000000 + (1 << 38))
    assert time.process_time() - start < 5
