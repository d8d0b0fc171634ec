"""Cores with more mappings than a header counts, of programs that were started oddly, and without their environment."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

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
