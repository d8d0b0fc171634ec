"""heap leaks: against a program that counts what it drops, and programs that drop nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest
from doors import DOORS, NEWEST, Live
from looks import ROOT, give_up, needs, opened
from marks import full_after, in_full
from platforms import ELSEWHERE
from schemas import valid
from shell_door import ARENASCOPE, ask, look
from subjects import Started, Subject, compiled, may_look_into_shared_memory

LOST = 1
NARROW = next(each for each in ELSEWHERE if each.id == "i386")


def sums(document: dict[str, Any]) -> dict[str, int]:
    """What is certainly lost."""
    rows = [each for each in document["leaks"] if each["strength"] == "definite"]
    return {
        "blocks": sum(each["blocks"] + each["indirect_blocks"] for each in rows),
        "bytes": sum(each["bytes"] + each["indirect_bytes"] for each in rows),
        "heads": sum(each["blocks"] for each in rows),
    }


def dropped(subject: Subject) -> dict[str, int]:
    words = (subject.folder / "truth" / "leaky.txt").read_text().split()
    return dict(zip(("blocks", "bytes", "heads"), map(int, words)))


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with Subject("leaky", guard_regions=False) as held:
        yield held


@pytest.mark.parametrize("image", ["live", *in_full("saved", "gcore")])
def test_what_was_dropped_is_lost(subject: Subject, tmp_path: Path, image: str) -> None:
    seen: object = subject.pid
    if image == "saved":
        seen = tmp_path / "saved.core"
        assert look(subject.pid, f"save {seen}")[0] == 0
    elif image == "gcore":
        seen = subject.gcore()
    document = ask(seen, "leaks", status=(LOST,))
    assert document["complete"], document["problems"]
    assert sums(document) == dropped(subject)
    assert document["unknown"] == {"blocks": 0, "bytes": 0}
    assert [(each["encoding"], each["blocks"]) for each in document["saved"]] == [("tagged", 100)]


@pytest.mark.full
def test_on_32_bits() -> None:
    """A word hits by chance there; and no more than that."""
    with Subject("leaky", platform=NARROW) as held:
        found, truth = sums(ask(held.pid, "leaks", status=(LOST,))), dropped(held)
    assert all(0.99 * truth[name] <= found[name] <= truth[name] for name in ("blocks", "bytes"))


def test_what_is_held_in_any_way_is_not_lost() -> None:
    with Subject("owners") as held:
        document = ask(held.pid, "leaks")
    assert sums(document)["blocks"] == 0
    assert document["complete"]
    assert {each["encoding"] for each in document["saved"]} == {"tagged", "shifted", "unaligned", "relative"}


GIGABYTES = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
char *volatile inside;
int main(void) {
    char *block = malloc(6ul << 30);
    if (!block) return 1;
    inside = block + (5ul << 30);
    block = NULL;
    printf("ready\\n");
    fflush(stdout);
    pause();
}
"""


def test_a_pointer_far_inside_a_block(tmp_path: Path) -> None:
    """None of its pages is in memory."""
    with Started(compiled(GIGABYTES, tmp_path, "-O1")) as process:
        if not process.said:
            pytest.skip("this machine does not give 6 GiB of addresses")
        document = ask(process.pid, "leaks")
    assert sums(document)["blocks"] == 0
    assert sum(each["bytes"] for each in document["leaks"]) > 6 << 30


DISTANCES = Path(__file__).with_name("leaks_distances.c").read_text()


ROWS = Path(__file__).with_name("leaks_rows.c").read_text()


def asked_of(source: str, folder: Path, status: int) -> dict[str, Any]:
    with Started(compiled(source, folder, "-O0", "-fno-builtin-malloc")) as process:
        return ask(process.pid, "leaks", status=(status,))


def test_a_number_is_no_distance(tmp_path: Path) -> None:
    """And one is where all in its place are."""
    document = asked_of(DISTANCES, tmp_path, LOST)
    # an old word may lead to the last one
    assert 1998 <= sums(document)["blocks"] <= 2000
    assert [(each["encoding"], each["blocks"]) for each in document["saved"]] == [("relative", 200)]


def test_what_an_odd_address_leads_into_is_not_surely_lost(tmp_path: Path) -> None:
    """Seven of eight rows have their pointer across two words."""
    document = asked_of(ROWS, tmp_path, 0)
    assert sums(document)["blocks"] == 0
    assert sum(each["blocks"] + each["indirect_blocks"] for each in document["leaks"]) == 200


# CAP_CHECKPOINT_RESTORE has no name yet where util-linux is older than the kernel
UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_admin,-cap_40")


def test_what_others_may_have_written_is_not_lost(tmp_path: Path) -> None:
    """Who may not look into shared memory itself sees of it what is in the process's page tables, and that has nothing
    where a child's parent has kept its pointers."""
    saved = tmp_path / "saved.core"
    with Subject("owners") as held:
        ways = (held.folder / "truth" / "owners.txt").read_text().splitlines()
        command = [*(UNPRIVILEGED if may_look_into_shared_memory() else ()), *ARENASCOPE]
        live = subprocess.run([*command, "leaks", str(held.pid), "--json"], stdout=subprocess.PIPE)
        subprocess.run([*command, "save", str(held.pid), str(saved)], check=True)
    assert live.returncode == 0
    for document in (valid(json.loads(live.stdout)), ask(saved, "leaks")):
        assert sums(document)["blocks"] == 0
        assert document["unknown"]["blocks"] == sum(", unmapped|" in each for each in ways) == 4
        assert "roots-missing" in {each["id"] for each in document["problem_records"]}


def shared_memory(pid: int) -> tuple[int, list[int]]:
    """What the process has mapped of it, and what there is of each."""
    rows = [row.split() for row in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    shared = [row[0] for row in rows if row[1][3] == "s"]
    (mapped,) = re.findall(r"RssShmem:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(mapped), [Path(f"/proc/{pid}/map_files/{each}").stat().st_blocks for each in shared]


def of_file(subject: Subject) -> dict[int, int]:
    """By size, what is in memory of the file that the process has changed a page of."""
    rows = Path(f"/proc/{subject.pid}/maps").read_text().splitlines()
    starts = {int(row.split("-")[0], 16) for row in rows if row.endswith("/owners.file")}
    return {end - start: size for (start, end), size in subject.smaps().items() if start in starts}


@pytest.mark.full
@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_reading_makes_no_pages(door: str) -> None:
    if not may_look_into_shared_memory():
        give_up("looking into shared memory needs CAP_CHECKPOINT_RESTORE")
    with Subject("owners", guard_regions=False) as held:
        before, private = shared_memory(held.pid), of_file(held)
        (outcome,) = opened(DOORS[door]).run(Live(held.pid, held.program), ["leaks --json"])
        assert sums(outcome.json())["blocks"] == 0
        assert shared_memory(held.pid) == before
        assert of_file(held) == private == {131072: os.sysconf("SC_PAGE_SIZE")}
        assert len(before[1]) == 5


POSIX = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **words) {
    int file = shm_open(words[1], O_RDWR | O_CREAT | O_EXCL, 0600), i;
    void **held;
    if (file < 0 || ftruncate(file, 4096)) return 1;
    held = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (i = 0; i < 100; i++) held[i] = calloc(1, 1200);
    printf("ready\\n");
    fflush(stdout);
    for (;;) pause();
}
"""


def test_what_posix_shared_memory_holds(tmp_path: Path) -> None:
    """Cores lack memory that has a name, by the filter that they are written with: what is in it nobody knows."""
    needs("gcore")
    name = f"/arenascope-{tmp_path.parent.name}-{os.getpid()}"
    with Started(compiled(POSIX, tmp_path, "-O1", "-lrt"), name) as process:
        try:
            saved = tmp_path / "saved.core"
            assert look(process.pid, f"save {saved}")[0] == 0
            whole = [ask(process.pid, "leaks"), ask(saved, "leaks")]
            core = tmp_path / "gcore"
            subprocess.run(["gcore", "-o", str(core), str(process.pid)], check=True, capture_output=True)
        finally:
            Path(f"/dev/shm{name}").unlink(missing_ok=True)
    partly = ask(core.with_name(f"gcore.{process.pid}"), "leaks")
    assert [sums(each)["blocks"] for each in (*whole, partly)] == [0, 0, 0]
    assert [each["unknown"]["blocks"] for each in whole] == [0, 0]
    assert partly["unknown"]["blocks"] >= 100
    assert "roots-missing" in {each["id"] for each in partly["problem_records"]}


PROGRAM = """
import collections, json, re, sqlite3, threading, time, xml.etree.ElementTree as tree
kept = {number: [re.compile("x%d" % number), json.loads("[1]"), collections.deque([number])] for number in range(300)}
table = sqlite3.connect(":memory:")
table.execute("create table t (a, b)")
table.executemany("insert into t values (?, ?)", [(number, "x" * number) for number in range(100)])
parsed = tree.fromstring("<a>" + "<b c='1'>t</b>" * 200 + "</a>")
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.full
@pytest.mark.parametrize("allocator", ["pymalloc", "malloc"])
def test_python_has_lost_nothing(allocator: str) -> None:
    environment = {"PYTHONMALLOC": allocator, "PATH": "/usr/bin:/bin"}
    with Started(sys.executable, "-c", PROGRAM, env=environment) as python:
        document = ask(python.pid, "leaks")
    assert sums(document)["blocks"] == 0
    assert document["reached"]["blocks"] > 1000


# others on the same


TAGGED = 100
"""What only tagged links hold, which the others call lost."""


def other(command: list[str], folder: Path) -> tuple[str, dict[str, int]]:
    """What it says at the fixture's end, and what was dropped."""
    done = subprocess.run([*command, str(folder)], input="quit\n", capture_output=True, text=True, timeout=120)
    words = (folder / "leaky.txt").read_text().split()
    return done.stderr, dict(zip(("blocks", "bytes", "heads"), map(int, words)))


@pytest.mark.full
def test_leak_sanitizer_says_the_same(tmp_path: Path) -> None:
    program = tmp_path / "leaky"
    source = ROOT / "fixtures" / "leaky.c"
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-pthread", "-fno-builtin-malloc", "-O1", "-fsanitize=leak"]
    if subprocess.run(["cc", *flags, str(source), "-o", str(program)], capture_output=True).returncode:
        give_up("this compiler has no LeakSanitizer")
    said, truth = other([str(program)], tmp_path / "truth")
    found = re.search(r"leaked in (\d+) allocation", said)
    assert found is not None, said
    assert int(found[1]) == truth["blocks"] + TAGGED


@pytest.mark.full
def test_memcheck_says_the_same(tmp_path: Path) -> None:
    needs("valgrind")
    command = ["valgrind", "--leak-check=full", str(ROOT / "fixtures" / "build" / "leaky")]
    said, truth = other(command, tmp_path / "truth")
    rows = re.findall(r"(definitely|indirectly|possibly) lost: [\d,]+ bytes in ([\d,]+) blocks", said)
    found = {kind: int(number.replace(",", "")) for kind, number in rows}
    heads = truth["heads"] + TAGGED
    # what a pair shares hangs on one of the two there, too
    assert found == {"definitely": heads, "indirectly": truth["blocks"] + TAGGED - heads, "possibly": 0}
