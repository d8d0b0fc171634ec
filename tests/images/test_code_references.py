"""Variables of stripped files, as code refers to them: the same programs' tables of symbols tell which there are."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple, Sequence

import pytest

from arenascope.sources.elf.address_names import STT_OBJECT, names_of
from arenascope.sources.elf.code_references import WORD, Variables, find_variables
from arenascope.sources.elf.elf_file import ElfFile

BUILD = Path(__file__).parents[2] / "fixtures" / "build"
PRECISION, RECALL = 0.99, 0.95
MOST_WORDS = 32
"""Of one variable: arrays of thousands would be all that counts."""

STOCK = r"""
#include <assert.h>
#include "shop.h"
static struct link newest = {&newest, &newest};
static void *volatile table[16], *volatile shelf[2], *volatile quiet[2];
void *volatile bought[4], *volatile sold[4], *volatile given[4];
static struct { long count; void *volatile *first; } vector;
static void *volatile cellar[2];
void add(int at, void *what) { assert(at < 16); table[at] = what; vector.first = table; }
void put(struct link *one) {
    assert(one);
    one->next = newest.next; one->previous = &newest; newest.next->previous = one; newest.next = one;
}
struct link *oldest(void) { return newest.previous == &newest ? newest.next : newest.previous; }
void hush(void *what) { quiet[0] = what; }
void store(void *what) { assert(what); shelf[0] = cellar[0] = bought[0] = given[0] = what; }
"""
TILL = r"""
#include <assert.h>
#include "shop.h"
static void *volatile lonely;
void take(void *what) { assert(what); lonely = sold[0] = what; }
"""
MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "shop.h"
static void *volatile offers[4], *volatile dull[4];
__attribute__((noinline)) void offer(void *what) { offers[0] = what; puts("offers_of_today"); }
__attribute__((noinline)) void bore(void *what) {
    dull[0] = what; puts("said_by_several"); puts(&"as_is_said_in_between"[6]);
}
int main(int count, char **words) {
    puts("said_by_several"); offer(words); bore(words); hush(words); store(words); take(words);
    add(count, words); put(malloc(sizeof(struct link))); return oldest() == NULL;
}
"""
HEADER = """
struct link { struct link *next, *previous; };
extern void *volatile sold[4];
void add(int, void *); void put(struct link *); struct link *oldest(void);
void hush(void *); void store(void *); void take(void *);
"""


class Object(NamedTuple):
    start: int
    size: int
    name: str


pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="code of x86-64 alone is understood")


def objects_of(path: Path) -> list[Object]:
    """What is a variable of words, without what ends in the others."""
    found: list[Object] = []
    with ElfFile(str(path)) as file:
        (*_, data), (*_, bss) = ([each for each in file.sections if each.name == name] for name in (".data", ".bss"))
        for name in names_of(file, (STT_OBJECT,)):
            own = any(each.address <= name.value < each.address + each.size for each in (data, bss))
            if own and name.size >= WORD and not name.value % WORD and (not found or name.value >= sum(found[-1][:2])):
                found.append(Object(name.value, name.size, name.text))
    return found


def stripped(path: Path, folder: Path) -> Path:
    copy = folder / f"{path.name}.stripped"
    subprocess.run(["strip", "-o", copy, path], check=True)
    return copy


def variables_of(path: Path) -> Variables:
    with ElfFile(str(path)) as file:
        found = find_variables(file)
    assert found is not None
    return found


def compared(objects: Sequence[Object], found: Variables) -> tuple[float, float]:
    """Precision and recall of which neighbouring words are of one variable."""
    one = split = merged = 0
    for each, following in zip(objects, objects[1:]):
        words = range(each.start, each.start + each.size - WORD + 1, WORD)
        for first, second in zip(words[:MOST_WORDS], words[1:]):
            if found.start_of(first) == found.start_of(second):
                one += 1
            else:
                split += 1
        merged += found.start_of(words[-1]) == found.start_of(following.start)
    return one / (one + merged), one / (one + split)


@pytest.mark.parametrize("name", ["kinds", "holding", "owners", "web", "sessions"])
def test_words_of_one_variable_are_one(name: str, tmp_path: Path) -> None:
    path = BUILD / name
    if not path.exists():
        pytest.skip(f"{path} is not built: make fixtures")
    precision, recall = compared(objects_of(path), variables_of(stripped(path, tmp_path)))
    assert (precision >= PRECISION, recall >= RECALL) == (True, True), (precision, recall)


@pytest.mark.parametrize("name", ["bins.static", "bins.static-pie"])
def test_libc_in_a_program(name: str, tmp_path: Path) -> None:
    """Its structs of numbers (mp_, the processor's features) are used member by member: those have no pointers."""
    path = BUILD / name
    if not path.exists():
        pytest.skip(f"{path} is not built: make fixtures")
    precision, recall = compared(objects_of(path), variables_of(stripped(path, tmp_path)))
    assert (precision >= PRECISION, recall >= 0.9) == (True, True), (precision, recall)


@pytest.fixture(scope="module", params=["-pie", "-no-pie"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("shop")
    for name, text in (("shop.h", HEADER), ("stock.c", STOCK), ("till.c", TILL), ("main.c", MAIN)):
        (folder / name).write_text(text)
    fine = "-fPIE" if request.param == "-pie" else "-fno-pie"
    files = ["stock.c", "till.c", "main.c"]
    subprocess.run(["gcc", "-O1", fine, request.param, "-o", "shop", *files], check=True, cwd=folder)
    return folder / "shop"


def test_source_files(shop: Path, tmp_path: Path) -> None:
    found = variables_of(stripped(shop, tmp_path))
    named = {each.name: each for each in objects_of(shop)}
    for name in ("table", "newest", "shelf", "cellar"):
        assert found.sources[named[name].start] == "stock.c", name
    assert found.sources[named["lonely"].start] == "till.c"
    # by where they lie: no function that uses them mentions the file
    for name in ("quiet", "sold"):
        assert found.sources[named[name].start] == "stock.c", name
    assert found.sources[named["offers"].start] == '"offers_of_today"'
    assert named["dull"].start not in found.sources
    # code uses both words of a list's head
    assert found.start_of(named["newest"].start + WORD) == named["newest"].start
    assert found.start_of(named["table"].start + 15 * WORD) == named["table"].start


def test_symbols_tell_better(shop: Path) -> None:
    with ElfFile(str(shop)) as file:
        assert find_variables(file) is None
