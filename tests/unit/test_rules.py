"""Rules of the user's: what they name, what contradicts them, and which files are believed."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest
from test_declared import GARBAGE, Program

from arenascope.base.errors import UsageError
from arenascope.sources.debug_info_types import BitField

ENUM = {"TEXT": 0, "TABLE": 2}


class Ruled(Program):
    """A list of entries, each with a number, a tag and a pointer to anything."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        types = self.types
        self.file = folder / "app.rules"
        self.leaf = types.struct("leaf", 72, ("next", 0, 0), ("number", 8, types.long))
        types.set(self.leaf, ("next", 0, types.to(self.leaf)), ("number", 8, types.long))
        self.value = types.struct("value", 40, ("count", 0, types.int), ("leaf", 8, types.to(self.leaf)))
        self.entry = types.struct("entry", 56)
        union = types.struct("", 8, ("any", 0, types.to(types.void)), ("number", 0, types.long), form="union")
        types.set(
            self.entry,
            ("next", 0, types.to(self.entry)),
            ("any", 8, types.to(types.void)),
            ("kind", 16, types.int),
            ("of", 24, union),
        )
        types.all[self.entry] = types.all[self.entry]._replace(
            bits=[BitField("low", 32 * 8, 3), BitField("high", 32 * 8 + 3, 5, signed=True)]
        )

    def entries(self, *rows: tuple[int, int, int]) -> None:
        """A list of them: where `any` leads, `kind`, and the byte with `low` and `high`."""
        blocks = [self.malloc(f"entry {at}", 56) for at in range(len(rows))]
        for here, after, (any, kind, bits) in zip(blocks, [*blocks[1:], 0], rows):
            self.put(here, after, any)
            self.put(here + 16, kind, size=4)
            self.put(here + 32, bits, size=1)
        self.variable("first", self.types.to(self.entry), blocks[0])

    def ruled(self, *lines: str) -> None:
        self.file.write_text("".join(f"{line}\n" for line in lines))
        self.named(rules=str(self.file))

    def contradicted(self) -> dict[float, float]:
        """By line, how many blocks."""
        found = {}
        for each in self.rules.doubts:
            line, blocks = each.figures["line"], each.figures["blocks"]
            assert line is not None
            assert blocks is not None
            found[line] = blocks
        return found


@pytest.fixture
def ruled(tmp_path: Path) -> Ruled:
    return Ruled(tmp_path)


def test_what_a_pointer_leads_to(ruled: Ruled) -> None:
    """And what is behind that."""
    values = [ruled.malloc(f"value {at}", 40) for at in range(3)]
    for at, value in enumerate(values):
        ruled.put(value, 1, ruled.malloc(f"leaf {at}", 72))
    ruled.entries(*((value, 0, 0) for value in values))
    ruled.named(rules="none")
    assert (ruled.name("value 1"), ruled.name("leaf 1")) == ("void at entry.any", None)
    ruled.ruled("# the program's own", "", "entry.any = struct value  # each has one")
    assert {ruled.sure(f"value {at}") for at in range(3)} == {"value"}
    assert {ruled.sure(f"leaf {at}") for at in range(3)} == {"leaf"}
    # no edge is left out for a rule
    assert ruled.number("value 1") not in set(ruled.found.typed())
    assert ruled.contradicted() == {}


@pytest.mark.parametrize(
    ("condition", "sure"),
    [
        (".kind == 2", {1}),
        (".kind != 2", {0, 2}),
        (".kind < 0", {2}),
        (".low == 5", {0}),
        (".high == -1", {1}),
        (".high >= 0", {0, 2}),
        ("->count == 7", {1, 2}),
        ("->count == 7 and .kind == 2", {1}),
    ],
)
def test_only_where_members_are_so(ruled: Ruled, condition: str, sure: set[int]) -> None:
    values = [ruled.malloc(f"value {at}", 40) for at in range(3)]
    for value, count in zip(values, (6, 7, 7)):
        ruled.put(value, count, size=4)
    ruled.entries((values[0], 1, 0b00001101), (values[1], 2, 0b11111010), (values[2], -1 % (1 << 32), 0b01000000))
    ruled.ruled(f"entry.any = value when {condition}")
    assert {at for at in range(3) if ruled.sure(f"value {at}") == "value"} == sure
    # a condition that does not hold contradicts nothing
    assert ruled.contradicted() == {}


def test_what_does_not_fit_is_left_out_and_counted(ruled: Ruled) -> None:
    right, small, stale, inside = (ruled.malloc(each, size) for each, size in SIZES.items())
    ruled.put(right, 1, 0)
    ruled.put(stale, 1, GARBAGE)
    ruled.entries((right, 0, 0), (small, 0, 0), (stale, 0, 0), (inside + 16, 0, 0), (99, 0, 0))
    ruled.ruled("entry.any = value")
    names = {each: ruled.name(each) for each in SIZES}
    assert names == {"right": "value", "small": "void at entry.any", "stale": "void at entry.any", "inside": None}
    assert ruled.contradicted() == {1: 3}


SIZES = {"right": 40, "small": 24, "stale": 40, "inside": 40}


def test_where_two_lines_fit_neither_counts(ruled: Ruled) -> None:
    ruled.types.struct("other", 36, ("count", 0, ruled.types.int))
    ruled.entries((ruled.malloc("block", 40), 0, 0), (ruled.malloc("leaf", 72), 0, 0))
    ruled.ruled("entry.any = value", "entry.any = other", "entry.any = leaf")
    assert (ruled.name("block"), ruled.sure("leaf")) == ("void at entry.any", "leaf")
    assert ruled.contradicted() == {}


def test_debug_information_comes_first(ruled: Ruled) -> None:
    """A rule that says something else of a block takes nothing away."""
    types = ruled.types
    twin = types.struct("twin", 40, ("leaf", 8, types.to(ruled.leaf)))
    block = ruled.malloc("block", 40)
    ruled.put(block, 0, ruled.malloc("leaf", 72))
    ruled.entries((block, 0, 0))
    ruled.variable("known", types.to(twin), block)
    ruled.ruled("entry.any = value")
    assert (ruled.sure("block"), ruled.sure("leaf")) == ("twin", "leaf")


def test_in_a_union(ruled: Ruled) -> None:
    value = ruled.malloc("value", 40)
    ruled.put(value, 1, ruled.malloc("leaf", 72))
    ruled.entries((0, 0, 0))
    ruled.put(ruled.ours["entry 0"] + 24, value)
    ruled.ruled("entry.of.any = value")
    assert (ruled.sure("value"), ruled.sure("leaf")) == ("value", "leaf")


def test_several_objects(ruled: Ruled) -> None:
    values, wrong = ruled.malloc("values", 5 * 40), ruled.malloc("wrong", 5 * 40)
    for at in range(5):
        ruled.put(values + 40 * at, 1, ruled.malloc(f"leaf {at}", 72))
    ruled.put(wrong + 40 * 3 + 8, GARBAGE)
    ruled.entries((values, 0, 0), (wrong, 0, 0))
    ruled.ruled("entry.any = value[]")
    assert (ruled.sure("values"), ruled.found.elements[ruled.number("values")]) == ("value[]", 5)
    assert {ruled.sure(f"leaf {at}") for at in range(5)} == {"leaf"}
    assert ruled.name("wrong") == "void at entry.any"
    assert ruled.contradicted() == {1: 1}


@pytest.mark.parametrize(("size", "name"), [(200, "value and a tail"), (24, "void at entry.any")])
def test_an_object_with_more_behind_it(ruled: Ruled, size: int, name: str) -> None:
    block = ruled.malloc("block", size)
    ruled.put(block, 1, 0)
    ruled.entries((block, 0, 0))
    ruled.ruled("entry.any = value and more")
    assert (ruled.name("block"), ruled.sure("block")) == (name, None)


def test_characters(ruled: Ruled) -> None:
    ruled.entries((ruled.malloc("text", 100), 0, 0), (ruled.malloc("counted", 100) + 3, 0, 0))
    ruled.ruled("entry.any = char[]")
    assert {ruled.name("text"), ruled.name("counted")} == {"char[] of entry.any"}
    assert ruled.sure("text") is None


def test_a_member_of_an_object(ruled: Ruled) -> None:
    leaf, other = ruled.malloc("leaf", 72), ruled.malloc("other", 40)
    ruled.entries((leaf + 8, 0, 0), (other + 8, 0, 0))
    ruled.ruled("entry.any = leaf.number")
    assert (ruled.sure("leaf"), ruled.name("other")) == ("leaf", None)
    assert ruled.contradicted() == {1: 1}


def test_what_a_link_lies_in(ruled: Ruled) -> None:
    """As a list of the kernel's: the links are members of what is in it, and of that in which it begins."""
    types = ruled.types
    link = types.struct("link", 16)
    types.set(link, ("next", 0, types.to(link)), ("back", 8, types.to(link)))
    types.struct("job", 104, ("text", 0, types.to(types.char)), ("link", 32, link), ("other", 48, link))
    queue = types.struct("queue", 56, ("jobs", 24, link))
    head = ruled.malloc("queue", 56)
    jobs = [ruled.malloc(f"job {at}", 104) for at in range(4)]
    ring = [head + 24, *(each + 32 for each in jobs)]
    for before, here, after in zip([ring[-1], *ring], ring, [*ring[1:], ring[0]]):
        ruled.put(here, after, before)
    ruled.variable("queue", types.to(queue), head)
    ruled.ruled("link in job.link")
    assert {ruled.sure(f"job {at}") for at in range(4)} == {"job"}
    # where the list begins is no contradiction
    assert (ruled.sure("queue"), ruled.contradicted()) == ("queue", {})


@pytest.mark.parametrize(
    "line",
    [
        "entry.any",
        "entry.any == value",
        "= value",
        "nothing.any = value",
        "entry.nothing = value",
        "entry.any = nothing",
        "entry.any = leaf.nothing",
        "entry.kind = value",
        "entry.any = value when .nothing == 1",
        "entry.any = value when .kind == TEXT",
        "entry.any = value when .low == 8",
        "entry.any = value when ->nothing == 1",
        "entry.any = char[] when ->count == 1",
        "entry.any = value when .kind",
        "entry.any = value when .kind == 1 or .kind == 2",
        "leaf in entry.nothing",
        "nothing in entry.any",
    ],
)
def test_a_line_that_says_nothing_of_this_program(ruled: Ruled, line: str) -> None:
    ruled.entries((ruled.malloc("value", 40), 0, 0))
    with pytest.raises(UsageError) as refused:
        ruled.ruled("entry.any = value", "", line)
    assert refused.value.message.startswith(f"{ruled.file}:3: ")
    assert "\n" not in refused.value.message


def test_an_enumerator_by_name(ruled: Ruled) -> None:
    types = ruled.types
    kind = types.add(types.all[types.int]._replace(name="kind", form="enum", enumerators=ENUM))
    fields = [each._replace(type=kind) if each.name == "kind" else each for each in types.all[ruled.entry].fields]
    types.all[ruled.entry] = types.all[ruled.entry]._replace(fields=fields)
    ruled.entries((ruled.malloc("table", 40), 2, 0), (ruled.malloc("text", 40), 0, 0))
    ruled.ruled("entry.any = value when .kind == TABLE")
    assert (ruled.sure("table"), ruled.sure("text")) == ("value", None)


@pytest.mark.parametrize(("file", "folder"), [(0o666, 0o755), (0o644, 0o777), (None, 0o755)])
def test_files_that_are_not_believed(ruled: Ruled, tmp_path: Path, file: Optional[int], folder: int) -> None:
    """Somebody else can write to it; or there is none."""
    inner = tmp_path / "inner"
    inner.mkdir()
    ruled.file = inner / "app.rules"
    ruled.entries((ruled.malloc("value", 40), 0, 0))
    if file is not None:
        ruled.file.write_text("entry.any = value\n")
        ruled.file.chmod(file)
    inner.chmod(folder)
    with pytest.raises(UsageError):
        ruled.named(rules=str(ruled.file))
