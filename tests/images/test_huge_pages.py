"""glibc.malloc.hugetlb=2: the main arena grows by mmap, of huge pages where there are any, else of plain ones."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from conftest import ENVIRONMENT
from marks import in_full
from schemas import valid
from shell_door import arenascope

ROOT = Path(__file__).resolve().parents[2]
RESERVE = Path("/proc/sys/vm/nr_hugepages")
REGIONS = 12
HEAP = ("live", "tcache", "returnable", "main_top", "scraps")
SOURCE = rf"""
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after the last block lies top */
static size_t top(char *block) {{ return *(size_t *) (block + malloc_usable_size(block)) & ~7ul; }}
int main(int argc, char **argv) {{
    size_t left = atol(argv[1]);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    for (int n = 0; n < {REGIONS}; n++) {{
        char *block = malloc(2000);
        memset(block, 1, 2000);
        /* all of this region but `left` bytes: the next block makes a new one */
        size_t rest = top(block);
        if (rest > left + 64) {{ char *more = malloc(rest - left - 8); memset(more, 1, rest - left - 8); }}
    }}
    free(malloc(5000));
    struct mallinfo2 info = mallinfo2();
    printf("arena %zx\nready 0\n", info.arena); fflush(stdout);
    for (;;) pause();
}}"""


@pytest.fixture(scope="module")
def fenced(build):
    return build(SOURCE, "-O0", name="fenced")


def ask(subject, *words):
    """`subject` runs, or is the path of a core."""
    image = subject if isinstance(subject, Path) else subject.pid
    return valid(json.loads(arenascope(*words, image, "--json").stdout))


def is_whole(subject):
    """Every byte that glibc counts is found, and lies in a region that was walked."""
    found = ask(subject, "arenas")
    assert found["problems"] == []
    (arena,) = found["arenas"]
    assert arena["system_bytes"] == subject.facts["arena"]
    assert arena["heaps"] >= REGIONS
    assert ask(subject, "check")["breaches"] == []
    assert ask(subject, "chunks", "--summary")["problems"] == []


TUNED = {**ENVIRONMENT, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}


@pytest.mark.parametrize("left", [32, *in_full(48, 64)])
def test_what_is_left_of_a_top_can_look_like_a_fencepost(fenced, start, left):
    subject = start(fenced, str(left), environment=TUNED)
    if "[heap]" in Path(f"/proc/{subject.pid}/maps").read_text():
        pytest.skip("this glibc grows by brk under glibc.malloc.hugetlb=2 too")
    is_whole(subject)


THREADED = Path(__file__).with_name("huge_pages_threaded.c").read_text()


@pytest.mark.parametrize("threads", [2, *in_full(1, 7)])
def test_threads_arenas_of_one_heap(build, start, threads):
    """mp_ says how large a heap is at most, and the release is still told by where arenas lie in theirs."""
    subject = start(build(THREADED, "-O0", name="threaded"), str(threads), environment=TUNED)
    found = ask(subject, "arenas")
    assert (found["complete"], found["problems"]) == (True, [])
    assert [arena["heaps"] for arena in found["arenas"]][1:] == [1] * threads
    assert found["totals"]["system_bytes"] == subject.facts["arena"]
    assert ask(subject, "check")["breaches"] == []
    params = ask(subject, "params")
    rows = {row["name"]: row for row in params["params"]}
    assert (params["problems"], rows["arena_max"]["value"]) == ([], 0)
    size = rows["hp_pagesize"]["value"]
    assert rows["hp_pagesize"]["note_record"]["id"] == ("mode-in-effect" if size else "mode-without-effect")
    told = int(re.search(r"^Hugepagesize: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)[1])
    assert size in (told << 10, 0)


@pytest.fixture
def reserved():
    """Some huge pages, for as long as a test takes."""
    before = int(RESERVE.read_text()) if RESERVE.exists() else 0
    try:
        RESERVE.write_text(str(before + 2 * REGIONS))
        free = int(re.search(r"^HugePages_Free: +(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)[1])
        if free < 2 * REGIONS:
            pytest.skip(f"the kernel can reserve {free} huge pages now")
        yield
    except OSError as error:
        pytest.skip(f"huge pages cannot be reserved here: {error.strerror}")
    finally:
        if os.access(RESERVE, os.W_OK):
            RESERVE.write_text(str(before))


def test_a_heap_of_huge_pages(reserved, fenced, start):
    subject = start(fenced, "48", environment=TUNED)
    sizes = subject.counters().values()
    huge = sum(each.get("Private_Hugetlb", 0) for each in sizes)
    if not huge:
        pytest.skip("this glibc does not ask for huge pages")
    is_whole(subject)
    report = ask(subject, "report")
    parts = {part["part"]: part["bytes"] for part in report["parts"]}
    assert min(parts.values()) >= 0
    assert sum(parts.values()) == report["rss_bytes"] == sum(each["Rss"] for each in sizes) + huge
    core = subject.kernel_core()
    try:
        again = {part["part"]: part["bytes"] for part in ask(core, "report")["parts"]}
        assert ask(core, "arenas")["problems"] == []
    finally:
        core.unlink()
    # another test may have had some of the pages: then part of the heap is of plain ones; what was there was dumped
    assert huge <= sum(parts.get(name, 0) for name in HEAP) == sum(again.get(name, 0) for name in HEAP)
