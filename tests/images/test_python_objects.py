"""What modules and functions of a Python lead to: each container by the way to it, as the Python itself counts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Sequence

import pytest
from pythons import PYTHONS, python_of, resting
from shell_door import ask, look
from subjects import Started

CODE = """
import collections, ctypes, functools, gc, json, sys, threading, types

def taken(body):
    return body.__alloc__() + 8 + 15 & ~15

def bodies(count):
    return [bytearray(1000 + number) for number in range(count)]

class Session:
    table = {}
    def __init__(self, number):
        self.number = number
        self.body = bytearray(2000 + number)
        self.tags = [str(number), str(number + 1)]

class Slotted:
    __slots__ = ("front", "kept", "__weakref__")
    def __init__(self, kept):
        self.kept = kept

class Tree:
    def __init__(self, depth):
        self.children = [Tree(depth - 1) for _ in range(3)] if depth else []

class Parent:
    def __init__(self, number):
        self.body = bytearray(4000 + number)
        self.children = [Child(self) for _ in range(2)]

class Child:
    __slots__ = ("parent",)
    def __init__(self, parent):
        self.parent = parent

Pair = collections.namedtuple("Pair", "left right")

def later(captured):
    return lambda: captured

def steps(own):
    yield
    own.append(None)

@functools.lru_cache(maxsize=None)
def unbounded(number):
    return bytearray(3000 + number)

@functools.lru_cache(maxsize=50)
def bounded(number):
    return bytearray(3000 + number)

def work(started):
    local = bodies(90)
    started.set()
    threading.Event().wait()

def main():
    gc.collect()
    gc.disable()
    for number in range(200):
        Session.table[f"session {number}"] = Session(number)
        unbounded(number)
        bounded(number)
    there = types.ModuleType("app.cache")
    sys.modules["app.cache"] = there
    there.cache = {"x": bodies(20), "y": bodies(30)}
    there.pairs = [Pair(number, set(map(str, range(number, number + 20)))) for number in range(10)]
    there.slotted = [Slotted(bodies(3)) for _ in range(40)]
    there.queue = collections.deque(bodies(300))
    there.queue.popleft()
    there.callbacks = [later(bodies(2)) for _ in range(60)]
    there.generators = [steps(bodies(4)) for _ in range(25)]
    for each in there.generators:
        next(each)
    there.default = collections.defaultdict(list)
    for number in range(70):
        there.default[number % 7].append(bytearray(900))
    there.tree = Tree(4)
    there.parents = [Parent(number) for number in range(70)]
    for _ in range(50):
        there.parents.pop()
    there.bound = Session(0).tags.append
    there.removed = {number: None for number in range(900)}
    for number in range(800):
        del there.removed[number]
    own = bodies(80)
    started = threading.Event()
    threading.Thread(target=work, args=(started,), daemon=True).start()
    started.wait()
    sessions = sum(taken(each.body) for each in Session.table.values())
    of_calls = [taken(bytearray(3000 + number)) for number in range(200)]
    of_cache = sum(taken(each) for some in there.cache.values() for each in some)
    made = {
        "__main__.Session.table": ["dict[str, Session]", 1, 200, sessions],
        "__main__.Session.table[].tags": ["list[str]", 200, 400, 0],
        "__main__.unbounded": ["functools.lru_cache", 1, 200, sum(of_calls)],
        "__main__.bounded": ["functools.lru_cache", 1, 50, sum(of_calls[150:])],
        "app.cache.cache": ["dict[Any, list]", 1, 2, of_cache],
        "app.cache.cache[]": ["list[bytearray]", 2, 50, of_cache],
        "app.cache.pairs": ["list[Pair]", 1, 10, 0],
        "app.cache.pairs[][1]": ["set", 10, 200, 0],
        "app.cache.slotted[].kept": ["list[bytearray]", 40, 120, 40 * sum(map(taken, bodies(3)))],
        "app.cache.queue": ["collections.deque[bytearray]", 1, 299, sum(map(taken, there.queue))],
        "app.cache.callbacks[].captured": ["list[bytearray]", 60, 120, 60 * sum(map(taken, bodies(2)))],
        "app.cache.generators[].own": ["list[bytearray]", 25, 100, 25 * sum(map(taken, bodies(4)))],
        "app.cache.default": ["collections.defaultdict[", 1, 7, 70 * taken(bytearray(900))],
        "app.cache.tree.children": ["list[Tree]", 121, 120, 0],
        "app.cache.parents[].children": ["list[Child]", 20, 40, 0],
        "app.cache.removed": ["dict", 1, 100, 0],
        "main(): own": ["list[bytearray]", 1, 80, sum(map(taken, own))],
        "thread 1 work(): local": ["list[bytearray]", 1, 90, sum(map(taken, bodies(90)))],
    }
    lost = sum(taken(bytearray(4000 + number)) for number in range(20, 70))
    there.found = bytearray(5000)
    of_found = (ctypes.c_char * 1).from_buffer(there.found)
    at = {"__main__.Session.table[]": id(Session.table["session 7"]), "app.cache.found": ctypes.addressof(of_found)}
    pooled = lambda value: sys.getsizeof(value) + 15 & ~15
    types_made = {
        "Session": [200, 0],
        "Slotted": [40, 40 * pooled(there.slotted[0])],
        "Tree": [121, 0],
        "Parent": [70, 0],
        "Child": [140, 140 * pooled(there.parents[0].children[0])],
        "Pair": [10, 10 * pooled(there.pairs[0])],
    }
    print(json.dumps([made, lost, at, types_made]), flush=True)
    sys.stdin.read()

main()
"""
SMALL = 48 << 10
"""What the small objects of one of these containers take at most."""


def rows_of(image: Path) -> dict[str, Any]:
    document = ask(image, "containers --limit 0")
    assert document["notes"] == []
    return {row["path"]: row for row in document["containers"]}


def agrees(rows: dict[str, Any], made: dict[str, Sequence[Any]]) -> None:
    for path, (kind, containers, elements, size) in made.items():
        row = rows[path]
        assert row["type"].startswith(kind), path
        assert (row["containers"], row["elements"]) == (containers, elements), path
        assert size <= row["held_bytes"] <= size * 1.3 + SMALL, path


@pytest.mark.parametrize("release", ["", *(pytest.param(each, marks=pytest.mark.full) for each in ("3.8", *PYTHONS))])
def test_containers_are_those_that_the_program_made(release: str, tmp_path: Path) -> None:
    python = python_of(release) if release else ["/usr/bin/python3"]
    with resting(CODE, python) as process:
        made, lost, at, types = json.loads(process.said)
        live = Path(str(process.pid))
        agrees(rows_of(live), made)
        rows = {each["reason"]: each for each in ask(live, "waste --limit 0")["waste"]}
        unbounded, cycle = rows["unbounded"], rows["cycle"]
        assert (unbounded["path"], unbounded["elements"], unbounded["hits"]) == ("__main__.unbounded", 200, 0)
        assert (cycle["path"], cycle["type"], cycle["containers"]) == ("Parent.children[].parent", "Parent", 50)
        assert cycle["mostly"] == "bytearray"
        assert lost <= cycle["mostly_bytes"] <= cycle["unused_bytes"] <= lost * 1.3
        for path, address in at.items():
            assert ask(live, f"owner {address:#x}")["expression"] == path
        python = {each["type"]: each for each in ask(live, "types --limit 0")["python"]}
        for name, (objects, size) in types.items():
            assert python[name]["objects"] == objects, name
            assert python[name]["bytes"] == size or not size, name
        assert python["bytearray"]["bytes"] >= sum(size for *_, size in made.values()) - made["app.cache.cache"][3]
        notes = [each for each in ask(live, "owners")["notes"] if each["id"].startswith("python-")]
        assert (notes[0]["id"], notes[0]["figures"]["held_bytes"]) == ("python-cycles", cycle["unused_bytes"])
        assert {"__main__.Session.table", "__main__.unbounded"} <= {each["names"].get("path") for each in notes}
        assert look(live, "types Session --values")[0] == look(live, "types --where 'Session: a == 1'")[0] == 2
        core = tmp_path / "core"
        assert look(live, f"save {core}")[0] == 0
    agrees(rows_of(core), made)


@pytest.mark.full
def test_of_an_older_python_nothing_is_told() -> None:
    with resting("import sys; print('ready', flush=True); sys.stdin.read()", python_of("3.7")) as process:
        document = ask(process.pid, "containers --limit 0")
    (note,) = document["notes"]
    assert (note["id"], note["names"]) == ("python-not-known", {"version": "3.7"})
    assert not any(row["path"].startswith("sys.") for row in document["containers"])


ARRAYS = """
import numpy, sys

class Quote:
    __slots__ = ("price",)
    def __init__(self, price):
        self.price = price

quotes = numpy.empty((2, 50, 300), dtype=object)
quotes.flat = [Quote(number) for number in range(30000)]
# its words are numbers, though they could be addresses of quotes
numbers = numpy.array([id(Quote(number)) for number in range(500)])
every_other = quotes[::2]
if sys.argv[1:]:
    records = numpy.zeros(200000, dtype=[("key", "i8", 20), ("text", "O")])
    for number in range(200000):
        records["text"][number] = f"value {number:012}"
print("ready", flush=True)
input()
"""


def arrays(*arguments: str) -> Started:
    numpy = pytest.importorskip("numpy")
    return resting(ARRAYS, arguments=arguments, PYTHONPATH=str(Path(numpy.__file__).parents[1]))


# a word of memory of a module in C may look like one object more: it does not have to begin a block yet
@pytest.mark.full
def test_arrays_of_numpys_hold_their_objects() -> None:
    """Pandas has the columns of texts in such arrays."""
    with arrays() as process:
        assert "python-not-reached" not in notes(ask(process.pid, "types"))
        types = {row["type"]: row for row in ask(process.pid, "types", "--limit", "0")["python"]}
        assert types["Quote"]["objects"] == 30000
        assert types["numpy.ndarray"]["objects"] >= 3
        paths = {row["path"]: row for row in ask(process.pid, "containers", "--limit", "0")["containers"]}
        quotes = paths["__main__.quotes"]
        assert (quotes["type"], quotes["elements"]) == ("numpy.ndarray[Quote]", 30000)
        assert not {"__main__.numbers", "__main__.every_other"} & paths.keys()


def notes(document: dict[str, Any]) -> dict[str, Any]:
    return {each["id"]: each for each in document["notes"]}


def test_objects_to_which_no_way_leads_are_not_passed_over() -> None:
    """In long records of numpy's it is not known where objects are. A text of 18 letters takes 80 bytes of a pool."""
    with arrays("records") as process:
        for command in ("types", "containers"):
            said = notes(ask(process.pid, command))["python-not-reached"]["figures"]
            assert 80 * 200000 <= said["bytes"] < 84 * 200000


WAITING = """
class Quote:
    __slots__ = ()

def inner(own):
    yield own

def outer():
    yield from inner([Quote() for _ in range(5)])

waiting = [outer() for _ in range(300)]
for each in waiting:
    next(each)
print("ready", flush=True)
input()
"""


# a word of memory of a module in C may look like one object more: it does not have to begin a block yet
@pytest.mark.full
@pytest.mark.parametrize("release", ["", "3.8", *PYTHONS])
def test_what_a_generator_waits_for_is_held(release: str) -> None:
    """It has no name: the generator has it on the stack on which its code works. Coroutines wait for others so."""
    with resting(WAITING, python_of(release) if release else [sys.executable]) as process:
        types = {row["type"]: row for row in ask(process.pid, "types", "--limit", "0")["python"]}
        assert types["Quote"]["objects"] == 1500
        assert types["generator"]["objects"] == 600


TREE = """
from xml.etree.ElementTree import Element, SubElement

class Quote:
    __slots__ = ()

root = Element("quotes")
for _ in range(3000):
    SubElement(root, "quote", {"value": Quote()})
print("ready", flush=True)
input()
"""


# a word of memory of a module in C may look like one object more: it does not have to begin a block yet
@pytest.mark.full
def test_what_an_object_of_a_module_in_c_has_beside_itself_leads_on() -> None:
    """An Element has a table of its children two steps from itself, and its attributes one."""
    with resting(TREE) as process:
        types = {row["type"]: row for row in ask(process.pid, "types", "--limit", "0")["python"]}
        assert types["Quote"]["objects"] == 3000
        assert types["xml.etree.ElementTree.Element"]["objects"] == 3001
