"""A process that is stopped anywhere, in the middle of malloc too: what a call in progress leaves is no damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from doors import DOORS, Live
from lldb_door import NEWEST_LLDB
from looks import opened
from marks import full_after
from subjects import Started, Subject, compiled

LOOKS = {"shell": 3, "gdb": 2, NEWEST_LLDB.name: 1}


@pytest.mark.parametrize("door", full_after(1, ["shell", "gdb", NEWEST_LLDB.name]))
def test_a_process_that_never_stands_still(door: str) -> None:
    looking = opened(DOORS[door])
    with Subject("churn", "4") as subject:
        for _ in range(LOOKS[door]):
            document = looking.run(Live(subject.pid, subject.program), ["check --json"])[0].json()
            assert [each for each in document["breaches"] if not each["transient"]] == []
            locked = {each["arena"] for each in document["busy"] if each["locked"]}
            # mp_'s count and a thread cache's are changed without a lock
            assert {each["arena"] for each in document["breaches"]} <= {*locked, None}
        # what was looked at goes on living
        assert subject.send("check") == "intact"


@pytest.mark.full
def test_a_single_thread_in_a_system_call_of_mallocs() -> None:
    """It takes no lock: only where it stands tells that top is not yet what it will be."""
    shell = DOORS["shell"]
    with Subject("trimmer") as subject:
        subject.process.stdin.write(b"tick\n")
        for _ in range(10):
            document = shell.run(Live(subject.pid, subject.program), ["check --json"])[0].json()
            assert [each for each in document["breaches"] if not each["transient"]] == [], document["busy"]
        subject.process.kill()


LEFT_OVER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    char *inside = (char *)dlsym(RTLD_DEFAULT, "malloc") + 8, line[8];
    puts("ready");
    fflush(stdout);
    __asm__ volatile("sub $64, %%rsp; mov %0, (%%rsp); mov %0, 8(%%rsp); mov %0, 16(%%rsp);"
                     "xor %%edi, %%edi; mov %1, %%rsi; mov $1, %%edx; call read; add $64, %%rsp"
                     : : "r"(inside), "r"(line)
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
    return 0;
}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="it names x86-64's registers")
@pytest.mark.parametrize("door", full_after(1, ["shell", "gdb"]))
def test_what_malloc_left_above_a_system_call_is_no_call(door: str, tmp_path: Path) -> None:
    """A buffer of the caller's that was not yet written into."""
    program = compiled(LEFT_OVER, tmp_path, "-O1", "-mno-red-zone", "-ldl")
    with Started(program) as process:
        (outcome,) = opened(DOORS[door]).run(Live(process.pid, program), ["check --json"])
    assert (outcome.json()["judgement"]["id"], outcome.json()["busy"]) == ("sound", [])
