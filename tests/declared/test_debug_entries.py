"""Variables and classes that are read from debug information here, beside what GDB says of them."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path
from typing import Iterator, Mapping, Optional, Sequence

import pytest
from sites import PROGRAMS, SOURCES

from arenascope.sources.elf.debug_entries import CHECKED, DebugEntries, debug_entries_of
from arenascope.sources.elf.elf_file import ElfFile
from arenascope.sources.type_spelling import spelled

pytestmark = pytest.mark.xdist_group("debug entries")
OTHER = ("g++", "-std=gnu++17", "-pthread", "-g", "-O0", "-gdwarf-4", "-gz")
WAYS = [
    pytest.param((), id="the fixture"),
    pytest.param(OTHER, id="DWARF 4, compressed", marks=pytest.mark.full),
]
STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>"
INSIDE = {
    "Registered<Plugin>::all()::those": ("std::vector<Plugin*, std::allocator<Plugin*>>", ()),
    "Singleton::instance()::one": ("Singleton", ("*",)),
    "registry<data::Point>()::entries": (
        "std::map<int, data::Point, std::less<int>, std::allocator<std::pair<int const, data::Point>>>",
        (),
    ),
}
"""Static variables of functions that are nowhere but inlined."""
CLASSES = (
    "std::tuple<data::Point*, Free>",
    f"std::tuple<int, {STRING}, std::unique_ptr<data::Point, std::default_delete<data::Point>>>",
    f"std::_Optional_payload<{STRING}, true, false, false>",
    f"std::_Optional_payload<{STRING}, false, false, false>",
    "std::vector<data::Record, std::allocator<data::Record>>",
)
PAYLOAD = f"std::_Optional_payload_base<{STRING}>"
ASK = """
import gdb, json
marks = {gdb.TYPE_CODE_PTR: "*", gdb.TYPE_CODE_REF: "&"}
def told(type):
    found, type = [], type.strip_typedefs().unqualified()
    while type.code in marks:
        found.insert(0, marks[type.code])
        type = type.target().strip_typedefs().unqualified()
    return [type.name, found]
variables, classes = {}, {}
for name in NAMES:
    symbol = gdb.lookup_static_symbol(name) or gdb.lookup_global_symbol(name)
    if symbol is not None:
        variables[int(symbol.value().address)] = [name, *told(symbol.type)]
        type = symbol.type.strip_typedefs()
        if type.code == gdb.TYPE_CODE_STRUCT:
            fields = [each for each in type.fields() if hasattr(each, "bitpos")]
            classes[type.name] = [type.sizeof, [[each.bitpos // 8, each.is_base_class] for each in fields]]
print(json.dumps([variables, classes]))
"""


@pytest.fixture(scope="module", params=WAYS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not request.param:
        return PROGRAMS / "idioms.cc.O2"
    built = tmp_path_factory.mktemp("built") / "idioms"
    subprocess.run([*request.param, "-o", str(built), str(SOURCES / "idioms.cc")], check=True)
    return built


@pytest.fixture
def entries(program: Path) -> Iterator[DebugEntries]:
    with ElfFile(str(program)) as file:
        found = debug_entries_of(file)
        assert found is not None
        yield found


def symbols_of(program: Path) -> Mapping[str, int]:
    listed = subprocess.run(["nm", "-C", str(program)], capture_output=True, text=True, check=True).stdout
    lines = (line.split(" ", 2) for line in listed.splitlines() if not line.startswith(" "))
    return {name: int(address, 16) for address, kind, name in lines if kind in "bBdDu"}


def test_variables_and_their_classes_are_as_gdb_has_them(program: Path, entries: DebugEntries, tmp_path: Path) -> None:
    names = [name for name in symbols_of(program) if name.startswith("g_") or "::s_" in name]
    script = tmp_path / "ask.py"
    script.write_text(ASK.replace("NAMES", repr(names)))
    # as linked: nothing runs
    words = ["gdb", "-nx", "-batch", "-x", str(script), str(program)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    variables, classes = json.loads(done.stdout.splitlines()[-1])
    assert len(variables) > 60
    assert len(classes) > 40
    for address, (name, type, marks) in variables.items():
        found = entries.variable_at(int(address))
        if "[" in type or ("(" in type and found is None):
            continue  # an array, a function: no name
        assert found is not None, name
        assert (found.name, spelled(found.type.name), list(found.type.marks)) == (
            name.rpartition("::")[2],
            spelled(type),
            marks,
        )
    read = {name: entries.class_named(spelled(name)) for name in classes if "<" in name}
    told = {name: found for name, found in read.items() if found is not None}
    assert len(told) > 20
    for name, found in told.items():
        size, places = classes[name]
        assert found.size == size
        assert {(each.offset, each.is_base) for each in found.members} <= {tuple(each) for each in places}


def test_statics_of_inlined_functions(program: Path, entries: DebugEntries) -> None:
    symbols = symbols_of(program)
    for name, (type, marks) in INSIDE.items():
        found = entries.variable_at(symbols[name])
        assert found is not None
        assert found.name == name.rpartition("::")[2]
        assert (spelled(found.type.name), tuple(found.type.marks)) == (type, marks)


def test_what_begins_elsewhere_is_none(program: Path, entries: DebugEntries) -> None:
    place = symbols_of(program)["g_tuple"]
    assert entries.variable_at(place) is not None
    assert entries.variable_at(place + 8) is None
    assert entries.class_named("std::tuple<data::Point*, Freed>") is None
    assert entries.class_named("data::Point") is None


def test_classes_are_told_apart(entries: DebugEntries) -> None:
    found = [entries.class_named(name) for name in CLASSES]
    assert [each.size if each is not None else None for each in found] == [8, 48, 40, 40, 24]
    bases = [member for each in found[2:4] if each is not None for member in each.members if member.is_base]
    assert [spelled(each.type.name) for each in bases] == [PAYLOAD, CLASSES[2]]


@pytest.mark.full
def test_damage_ends() -> None:
    program = PROGRAMS / "idioms.cc.O2"
    with ElfFile(str(program)) as file:
        whole = {each.name: file.read(each.offset, each.size) for each in file.sections if each.name in CHECKED}
        order, word = file.byte_order, file.pointer_size
    places = list(symbols_of(program).values())
    chance = random.Random(7)
    began, answered = time.process_time(), 0
    for _ in range(40):
        sections = {name: bytearray(data) for name, data in whole.items()}
        for data in sections.values():
            for _ in range(chance.choice((1, 30, 1000))):
                data[chance.randrange(len(data))] = chance.randrange(256)
        entries = DebugEntries({name: bytes(data) for name, data in sections.items()}, order, word)
        asked: Sequence[Optional[object]] = [
            *(entries.variable_at(each) for each in chance.sample(places, 10)),
            *(entries.class_named(each) for each in chance.sample(CLASSES, 2)),
        ]
        answered += sum(each is not None for each in asked)
    assert answered > 40
    assert time.process_time() - began < 60
