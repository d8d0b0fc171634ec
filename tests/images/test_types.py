"""What blocks are: each that the fixture planted is called what it is, and none is given another class."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Iterator

import pytest
from marks import in_full
from pythons import PYTHONS, python_of, resting
from shell_door import arenascope, ask, look
from subjects import Subject

from arenascope.base.heap_model import Kind
from arenascope.blocks.name_all_blocks import live_kinds
from arenascope.blocks.single_blocks import kinds_of
from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session

CLAIMING = ("c++", "control", "python", "gobject", "string", "vector", "node")
"""Kinds that say of a block what it is, not only what it looks like."""
GUESSED = (("c++", "Tailed"),)
"""Of two sizes as frequent: either may be what the block was before."""
MANY = 40
"""Blocks of each."""


def planted_by(folder: Path) -> dict[int, tuple[str, str]]:
    """(kind, type) of each block, by what malloc returned."""
    rows = [line.split("\t") for line in (folder / "kinds.txt").read_text().splitlines()]
    return {int(row[0], 16): (row[2], row[3]) for row in rows}


def kinds_by_block(session: Session) -> dict[int, Kind]:
    live = live_kinds(session)
    found = {live.blocks.starts[number]: live.kinds[kind] for number, kind in live.typed()}
    return {**found, **{user: live.kinds[kind] for user, kind in live.caches.items()}}


def is_right(planted: tuple[str, str], found: Kind) -> bool:
    kind, name = planted
    if kind == "-":
        return found.kind not in CLAIMING
    return (found.kind, found.name) == (kind, name)


pytestmark = pytest.mark.xdist_group("types")

BUILDS = (
    *("kinds", "kinds.static"),
    *(
        pytest.param(name, marks=pytest.mark.full)
        for name in ("kinds.stripped", "kinds.no-rtti", "kinds.libc++", "kinds.32")
    ),
)


class Seen:
    """A build of the fixture that runs, with what it planted and what is seen of that."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.planted = planted_by(subject.folder / "truth")
        self.found = kinds_by_block(Session(ShellDoor(str(subject.pid), How("none", declared=False)).target()))


@pytest.fixture(scope="module", params=BUILDS)
def seen(request: pytest.FixtureRequest) -> Iterator[Seen]:
    with Subject(request.param) as subject:
        yield Seen(subject)


def test_no_block_is_given_a_class_that_it_is_not_of(seen: Seen) -> None:
    """One that was left behind in a block of another size is none."""
    assert {block for block in seen.planted if block not in seen.found} == set()
    wrong = Counter(
        (planted, seen.found[block])
        for block, planted in seen.planted.items()
        if seen.found[block].kind in CLAIMING and not is_right(planted, seen.found[block])
    )
    assert not wrong


def test_nearly_all_are_called_what_they_are(seen: Seen) -> None:
    wrong = Counter(
        (planted, seen.found[block])
        for block, planted in seen.planted.items()
        if not is_right(planted, seen.found[block])
    )
    assert len(seen.planted) > 30 * MANY
    assert sum(wrong.values()) <= len(seen.planted) // 20, wrong


def test_what_its_own_words_tell_needs_no_holders() -> None:
    with Subject("kinds.stripped") as subject:
        kinds = {row["kind"] for row in ask(subject.pid, "types --quick --limit 0")["types"]}
        assert kinds >= {"c++", "control", "text", "node", "size"}
        assert not kinds & {"string", "vector"}


def test_single_blocks_are_no_class_that_they_are_not_of(seen: Seen) -> None:
    """Asked for one by one, without a sweep; what was left behind is told by the blocks near by."""
    session = Session(ShellDoor(str(seen.subject.pid), How("none", declared=False)).target())
    header, word = session.layout.header, session.layout.word
    placed = {block - header: (session.memory.word(block - word) & ~7) for block in seen.planted}
    found = kinds_of(session, list(placed.items()))
    told = {block: found[block - header] for block in seen.planted}
    assert not [
        (what, told[block].name)
        for block, what in seen.planted.items()
        if told[block].kind == "c++" and not is_right(what, told[block])
    ]
    # two and more of a class are certain
    sure = {what for block, what in seen.planted.items() if told[block].kind == "c++" and told[block].certain}
    assert len(sure) > 10
    # with libc++ what lies beside it is up to the compiler
    either = {("c++", "Circle[]")} if seen.subject.program.name == "kinds.libc++" else set()
    told_of = {what for block, what in seen.planted.items() if told[block].kind == "c++"}
    assert sure - either == told_of - {*GUESSED} - either


def test_without_rtti_and_symbols_no_class_is_made_up() -> None:
    """Those of the program are told by no word, those of libstdc++ are; what its containers hold is, too."""
    with Subject("kinds.nameless") as subject:
        planted = planted_by(subject.folder / "truth")
        found = kinds_by_block(Session(ShellDoor(str(subject.pid), How("none", declared=False)).target()))
    wrong = Counter(
        (what, found[block].name)
        for block, what in planted.items()
        if found[block].kind in CLAIMING and not is_right(what, found[block])
    )
    assert not wrong
    right = {what for block, what in planted.items() if is_right(what, found[block])}
    assert right >= {("c++", "std::runtime_error"), ("string", "std::string body"), ("vector", "std::vector body")}


def test_the_command_counts_them(seen: Seen) -> None:
    """Rows and bookkeeping are all that is in use, by system_mem, and sum up."""
    document = ask(seen.subject.pid, "types --limit 0 --no-declared")
    assert (document["complete"], document["left_out"]) == (True, 0)
    rows, totals = document["types"], document["totals"]
    assert sum(row["bytes"] for row in rows) == totals["bytes"]
    assert sum(row["blocks"] for row in rows) == totals["blocks"] == len(seen.found)
    assert totals["bytes"] + totals["bookkeeping_bytes"] + totals["foreign_bytes"] + totals["damaged_bytes"] == (
        totals["used_bytes"] + totals["mmapped_bytes"]
    )
    by_name = {(row["kind"], row["type"]): row for row in rows}
    assert by_name["holder", "glibc's thread cache"]["blocks"] == 1
    for (kind, name), blocks in Counter(seen.planted.values()).items():
        if kind in ("c++", "control"):
            # where the class has no vtable, another block told
            row = by_name[kind, name]
            assert (row["blocks"], row["certain"]) == (blocks, (kind, name) not in GUESSED), name
            library = name.startswith("std::") and row["module"].startswith(("libstdc++.so", "libc++"))
            assert library or row["module"] == seen.subject.program.name
            assert {seen.planted[int(sample, 16)] for sample in row["samples"]} == {(kind, name)}


@pytest.mark.full
def test_of_the_kernels_core_it_says_the_same() -> None:
    """Which leaves out what was not written: there names stand in the program's file."""
    with Subject("kinds.stripped") as subject:
        live = kinds_by_block(Session(ShellDoor(str(subject.pid), How("none", declared=False)).target()))
        core = subject.kernel_core()
        assert kinds_by_block(Session(ShellDoor(str(core), How("none", declared=False)).target())) == live


PYTHON = """
import abc, collections, gc, json, sys
class Slotted: __slots__ = [f"field_{i}" for i in range(80)]
class Base(abc.ABC): pass
made = [type(f"Made{i}", (Base,), {}) for i in range(50)]
wide = [Slotted() for _ in range(300)]
tuples = [tuple([[]] * 90) for _ in range(200)]
gc.collect()
gc.disable()
def own(each): return type(each).__basicsize__ + type(each).__itemsize__ * (len(each) if type(each) is tuple else 0)
names = collections.Counter(type(each).__name__ for each in gc.get_objects() if own(each) > 512)
print(json.dumps(names), flush=True)
sys.stdin.read()
"""


def test_pythons_objects_are_those_that_its_collector_knows() -> None:
    """Beyond 512 bytes, where its own allocator asks malloc."""
    with resting(PYTHON) as process:
        names = json.loads(process.said)
        document = ask(process.pid, "types --quick --limit 0")
        shown = look(process.pid, "types --quick --limit 0")[1].splitlines()
    assert [each["id"] for each in document["notes"]] == ["pymalloc-apart"]
    # why most objects are missing is told in front of the table
    assert "pymalloc" in shown[1]
    rows = {row["type"].rpartition(".")[2]: row for row in document["types"] if row["kind"] == "python"}
    assert names["Slotted"] == 300
    for name, objects in names.items():
        # a tuple of which nothing can refer to itself is not the collector's
        assert rows[name]["blocks"] >= objects if name == "tuple" else rows[name]["blocks"] == objects, name
        assert rows[name]["certain"]


BODIES = """
import collections, gc, json, sys
word, small = 8, 512
lists = [[None] * 200 for _ in range(300)] + [list(range(5000)) for _ in range(40)]
for number in range(200):
    lists.append([])
    for item in range(150 + number): lists[-1].append(item)
dicts = [dict.fromkeys(range(100)) for _ in range(200)]
dicts += [{str(item): 1 for item in range(40 + number)} for number in range(200)]
sets = [set(range(100 + number)) for number in range(150)]
bytearrays = [bytearray(1000 + number) for number in range(100)]
deques = [collections.deque(range(300)) for _ in range(30)]
gc.collect()
gc.disable()
alive = gc.get_objects()
def apart(types, own): return sum(each.__sizeof__() - own > small for each in alive if type(each) in types)
made = {
    # the list of all of them is not among them
    "list items": apart([list], 5 * word) + 1,
    "set table": apart([set, frozenset], set().__sizeof__()),
    "bytearray bytes": len(bytearrays),
    "deque block": len(deques) * 5,
}
print(json.dumps([made, len(dicts)]), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("release", ["", *(pytest.param(each, marks=pytest.mark.full) for each in PYTHONS)])
def test_what_pythons_objects_keep_apart_is_named(release: str) -> None:
    """Exactly as many as there are beyond what its own allocator keeps."""
    with resting(BODIES, python_of(release) if release else [sys.executable]) as process:
        made, dicts = json.loads(process.said)
        document = ask(process.pid, "types --limit 0")
    rows = {row["type"]: row for row in document["types"] if row["kind"] == "python" and not row["owner"]}
    assert {name: rows[name]["blocks"] for name in made} == made
    assert all(rows[name]["certain"] for name in [*made, "dict keys"])
    # there are some that belong to no object, too
    assert dicts <= rows["dict keys"]["blocks"] < 2 * dicts


DICTS = """
import gc, json, sys, types
small, empty = 512, {}.__sizeof__()
class Session:
    def __init__(self, number):
        for each in range(number): setattr(self, f"name{each}", each)
class Loose: pass
class Slotted:
    __slots__ = ("kept", "__dict__")
class Failure(Exception): pass
class Rows(list): pass
class Meta(type): pass
class Modest(metaclass=Meta):
    def __init__(self): self.one = self.two = 1
names = {f"other{number}": number for number in range(90)}
sessions = [Session(40 + number % 9) for number in range(300)]
others = [made() for made in (Loose, Slotted, Failure, Rows) for _ in range(50)]
for each in others: each.__dict__.update(names)
modest = [Modest() for _ in range(1000)]
crowded = type("Crowded", (), dict(names))
cleared = [Loose() for _ in range(20)]
for each in cleared: each.__dict__.update(names)
del cleared[:]
# of no object, of one that holds it elsewhere, and of two types
plain = [dict(names) for _ in range(30)]
class Wrong:
    __slots__ = ("mapping",)
wrong = [Wrong() for _ in range(30)]
for each in wrong: each.mapping = dict(names)
shared = dict(names)
lent = Loose(), Failure()
for each in lent: each.__dict__ = shared
gc.collect()
gc.disable()
def is_large(table): return table.__sizeof__() - empty > small
def own(each):
    if isinstance(each, type): return next(made for made in gc.get_referents(each) if type(made) is dict)
    return each.__dict__
# what leads to a dict behind a type, as an object would
pairs = [(Failure, dict(names)) for _ in range(30)] + [(2, Failure, dict(names)) for _ in range(30)]
made, wanted = {}, (Session, Loose, Slotted, Failure, Rows, types.ModuleType, type, Meta)
for each in gc.get_objects():
    if type(each) in wanted and not any(each is one for one in lent):
        made[type(each).__name__] = made.get(type(each).__name__, 0) + is_large(own(each))
# Py_TPFLAGS_MANAGED_DICT, since 3.11
common = sum(isinstance(each, type) and each.__flags__ >> 4 & 1 for each in gc.get_objects())
print(json.dumps([made, common, sys.version_info >= (3, 11)]), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("release", ["", *(pytest.param(each, marks=pytest.mark.full) for each in PYTHONS)])
def test_keys_are_said_to_be_of_the_objects_whose_dict_they_are_in(release: str) -> None:
    """By class exactly: no dict that is nobody's __dict__, none that two types share, none that was freed."""
    with resting(DICTS, python_of(release) if release else [sys.executable]) as process:
        made, common, each_class = json.loads(process.said)
        document = ask(process.pid, "types --limit 0")
    classes = [row["blocks"] for row in document["types"] if row["type"] == "shared dict keys"]
    assert classes == [common] * each_class
    rows = {row["owner"]: row for row in document["types"] if row["type"] == "dict keys"}
    found = {name: rows[name]["blocks"] if name in rows else 0 for name in made}
    # before 3.11 a class's table can be as large as that: its first objects have one in common
    made["Session"] += not each_class
    assert found == made
    assert "Wrong" not in rows
    assert all(row["certain"] for row in rows.values())


def test_pythons_small_objects_where_malloc_has_them() -> None:
    code = "import sys; kept = [f'{number:05d} of many' for number in range(5000)]; print(flush=True); sys.stdin.read()"
    with resting(code, PYTHONMALLOC="malloc") as process:
        document = ask(process.pid, "types --quick --match str")
    (row,) = document["types"]
    assert 5000 < row["blocks"] < 20000
    assert document["notes"] == []


@pytest.mark.parametrize("words", ["types --match", *in_full("chunks --type", "containers --match")])
def test_a_pattern_is_a_shells_and_ends(words: str) -> None:
    """As a regular expression this one tries each way to divide a name: it would not end."""
    name, option = words.split()
    with Subject("kinds") as subject:
        done = arenascope(name, subject.pid, option, r"(([\w:<>, ]+)+)+$#", "--json", timeout=60)
    assert json.loads(done.stdout)[name] == []


@pytest.mark.full
def test_gobjects_are_those_that_were_made() -> None:
    """By their own names, wherever their private data lies; what only begins with a class is none."""
    # since GLib 2.76 they are malloc's in any case
    with Subject("gobjects", env={"G_SLICE": "always-malloc"}) as subject:
        text = (subject.folder / "truth" / "gobjects.txt").read_text()
        document = ask(subject.pid, "types --quick --limit 0")
    found = {row["type"]: row for row in document["types"] if row["kind"] == "gobject"}
    made = {name: int(count) for name, count in (line.split("\t") for line in text.splitlines())}
    assert {name: row["blocks"] for name, row in found.items() if name in made} == made
    assert all(row["certain"] for row in found.values())
    assert {found[name]["module"] for name in made if name.startswith("Tale")} == {"gobjects"}
    assert found["GParamInt"]["module"].startswith("libgobject-2.0.so")


@pytest.mark.full
@pytest.mark.parametrize("slices", ["apart", "malloc"])
def test_glibs_tables_lists_and_strings_are_those_that_were_made(slices: str) -> None:
    """Up to GLib 2.74 structs are in pages of slices, and what they keep is malloc's."""
    with Subject("gobjects", env={"G_SLICE": "always-malloc"} if slices == "malloc" else {}) as subject:
        lines = (subject.folder / "truth" / "glib.txt").read_text().splitlines()
        found = kinds_by_block(Session(ShellDoor(str(subject.pid), How("none", declared=False)).target()))
    made = {int(block, 16): what for block, what in (line.split(" ", 1) for line in lines)}
    ours = {"GHashTable", "GHashTable keys", "GHashTable hashes", "GHashTable values", "GList node"}
    # where its GString is no slice, it may be any program's
    ours |= {"GString"} if slices == "malloc" else {"GString text"}
    # the first slice of a page begins where its block does
    blocks = {block: what for block, what in made.items() if block in found and found[block].name != "GSlice page"}
    told = Counter((what, found[block].name) for block, what in blocks.items())
    wrong = {(what, name): times for (what, name), times in told.items() if what != name and {what, name} & ours}
    assert not wrong
    if slices == "malloc":
        assert blocks.keys() == made.keys()
    kept = {"GHashTable keys", "GHashTable hashes", "GHashTable values"}
    # Python 3.9 has no >= for Counters
    assert not Counter(what for what in made.values() if what in kept) - Counter(blocks.values())
