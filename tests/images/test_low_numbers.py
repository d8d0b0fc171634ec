"""Numbers that are by chance addresses in a heap below 4 GiB: whatever else leads to a block holds it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from partial import look
from subjects import compiled, started

pytestmark = pytest.mark.xdist_group("low numbers")

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry { const char *name; struct entry *next; unsigned long hash; };
struct link { char front[64]; void *inside; };

/* by one pointer into a block: nearer than `keeper` */
struct entry *hashes;
char *cursor;
struct link *keeper;

static void *made(size_t bytes) {
    void *block = malloc(bytes);
    return memset(block, 0, bytes);
}

static void put(unsigned long hash) {
    struct entry *entry = made(sizeof *entry);
    entry->next = hashes;
    entry->hash = hash;
    hashes = entry;
}

/* hidden, so that no word on the stack or in a register leads to a block */
static unsigned long hidden[4];

static __attribute__((noinline)) void allocate(void) {
    struct link *first = made(sizeof *first), *second = made(sizeof *second);
    char *shared = made(1000), *lonely = made(2000), *aligned = made(3000), *read = made(4000);
    keeper = first;
    first->inside = second->front + 40;
    second->inside = shared + 40;
    put((unsigned long)shared + 777);
    put((unsigned long)lonely + 777);
    put((unsigned long)aligned + 800);
    cursor = read + 777;
    hidden[0] = ~(unsigned long)shared;
    hidden[1] = ~(unsigned long)lonely;
    hidden[2] = ~(unsigned long)aligned;
    hidden[3] = ~(unsigned long)read;
}

static __attribute__((noinline)) void overwrite_the_stack(void) {
    volatile char frames[4096];
    for (size_t each = 0; each < sizeof frames; each++) frames[each] = 0;
}

int main(void) {
    allocate();
    overwrite_the_stack();
    printf("%lx %lx %lx %lx\\n", hidden[0], hidden[1], hidden[2], hidden[3]);
    fflush(stdout);
    return getchar() == EOF;
}
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """With the blocks that the program tells."""
    folder = tmp_path_factory.mktemp("low")
    with started(compiled(SOURCE, folder, "-O1", "-no-pie", "-fno-pie")) as running:
        blocks = [~int(each, 16) & (1 << 64) - 1 for each in running.said.split()]
        assert look(Path(str(running.pid)), f"save {folder / 'low.core'}")[0] == 0
    return folder / "low.core", blocks


def answer(image: Path, words: str) -> Any:
    status, said, complained = look(image, words, "--json")
    assert status == 0, complained
    return json.loads(said)


def test_who_holds_what(core: tuple[Path, list[int]]) -> None:
    """A number holds what nothing else leads to, also one of a variable's that leads far inside; a block's that is a
    multiple of 8, as pointers to structs are, counts as ever."""
    image, (shared, lonely, aligned, read) = core
    assert read < 1 << 32
    expected = {
        shared: ("keeper", None),
        lonely: ("hashes", "low-number"),
        aligned: ("hashes", None),
        read: ("cursor", "low-number"),
    }
    for address, held_by in expected.items():
        found = answer(image, f"owner {address:#x}")["held_by"]
        assert (found["name"], found["stale"]) == held_by
    assert {each["stale"] for each in answer(image, f"refs {shared:#x}")["refs"]} == {None, "low-number"}


def test_none_is_lost(core: tuple[Path, list[int]]) -> None:
    image, (_, lonely, _, read) = core
    found = answer(image, "leaks")
    assert {each["strength"] for each in found["leaks"]} == {"possible"}
    stale = sorted((each["name"], each["why"], each["samples"]) for each in found["stale_words"])
    assert stale == [("32 bytes", "low-number", [f"{lonely:#x}"]), ("cursor", "low-number", [f"{read:#x}"])]
