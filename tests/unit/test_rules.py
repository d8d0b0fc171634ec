"""Rules of the user's: what they name in debug information, and which files are believed. What is done by them the
engine's own tests say."""

from __future__ import annotations

from pathlib import Path
from typing import Optional, Sequence

import pytest

from arenascope.base.errors import UsageError
from arenascope.blocks.declared.rules import MemberRule, PointerRule, ProgramRules, RuleText, Tag, made, named_rules
from arenascope.blocks.declared.type_table import TypeTable
from arenascope.sources.type_source import BitField, StructField, TypeFacts

ENUM = {"TEXT": 0, "TABLE": 2}


class DeclaredTypes:
    """A TypeSource of types that are declared by hand."""

    engine = None

    def __init__(self) -> None:
        self.all: list[TypeFacts] = []
        self.int = self.add(TypeFacts("int", "integer", 4, signed=True))
        self.long = self.add(TypeFacts("long", "integer", 8, signed=True))

    def add(self, facts: TypeFacts) -> int:
        self.all.append(facts)
        return len(self.all) - 1

    def struct(self, name: str, size: int, *fields: tuple[str, int, int], form: str = "struct") -> int:
        """Fields are (name, offset, type)."""
        return self.add(TypeFacts(name, form, size, fields=[StructField(*each) for each in fields]))  # type: ignore[arg-type]

    def set(self, number: int, *fields: tuple[str, int, int]) -> None:
        """The fields of a struct that was declared before."""
        self.all[number] = self.all[number]._replace(fields=[StructField(*each) for each in fields])

    def to(self, target: Optional[int]) -> int:
        return self.add(TypeFacts("", "pointer", 8, target=target))

    def facts(self, type: int) -> TypeFacts:
        return self.all[type]

    def named(self, name: str, beside: Optional[int] = None) -> Sequence[int]:
        return [at for at, each in enumerate(self.all) if each.name == name and each.form == "struct"]


class Entries:
    """A list of entries, each with a number, a tag and a pointer to anything."""

    def __init__(self) -> None:
        types = self.types = DeclaredTypes()
        self.leaf = types.struct("leaf", 72)
        types.set(self.leaf, ("next", 0, types.to(self.leaf)), ("number", 8, types.long))
        self.value = types.struct("value", 40, ("count", 0, types.int), ("leaf", 8, types.to(self.leaf)))
        self.entry = types.struct("entry", 56)
        union = types.struct("", 8, ("any", 0, types.to(None)), ("number", 0, types.long), form="union")
        kind = types.add(types.all[types.int]._replace(name="kind", form="enum", enumerators=ENUM))
        types.set(
            self.entry,
            ("next", 0, types.to(self.entry)),
            ("any", 8, types.to(None)),
            ("kind", 16, kind),
            ("of", 24, union),
            ("leaf", 40, self.leaf),
        )
        types.all[self.entry] = types.all[self.entry]._replace(
            bits=[BitField("low", 32 * 8, 3), BitField("high", 32 * 8 + 3, 5, signed=True)]
        )

    def ruled(self, *lines: str) -> ProgramRules:
        text = RuleText("app.rules", "".join(f"{line}\n" for line in lines), named=True)
        return made(TypeTable(self.types), text)

    def only(self, line: str) -> PointerRule:
        (rules,) = self.ruled("# the program's own", "", f"{line}  # each has one").pointers.values()
        assert len(rules) == 1
        return rules[0]


@pytest.fixture
def entries() -> Entries:
    return Entries()


def test_what_a_member_leads_to(entries: Entries) -> None:
    plain = entries.only("entry.any = struct value")
    assert plain == PointerRule(plain.rule, 8, entries.value, tags=[], told=[])
    assert (plain.rule.line, plain.rule.text) == (3, "entry.any = struct value")
    assert entries.only("entry.any = value[]").is_array
    assert entries.only("entry.any = value and more").and_more
    assert entries.only("entry.any = char[]").target is None
    assert entries.only("entry.of.any = value").offset == 24
    inner = entries.only("entry.any = leaf.number")
    assert (inner.target, inner.back) == (entries.leaf, 8)
    assert entries.ruled("entry.any = value", "entry.any = leaf").pointers.keys() == {"entry.any"}


@pytest.mark.parametrize(
    ("condition", "tag", "of_target"),
    [
        (".kind != 2", Tag(BitField("kind", 128, 32, True), "!=", 2), False),
        (".kind == TABLE", Tag(BitField("kind", 128, 32, True), "==", 2), False),
        (".low == 5", Tag(BitField("low", 256, 3), "==", 5), False),
        (".high >= -1", Tag(BitField("high", 259, 5, True), ">=", -1), False),
        ("->count == 7", Tag(BitField("count", 0, 32, True), "==", 7), True),
    ],
)
def test_only_where_members_are_so(entries: Entries, condition: str, tag: Tag, of_target: bool) -> None:
    rule = entries.only(f"entry.any = value when {condition}")
    assert (rule.tags, rule.told) == (([], [tag]) if of_target else ([tag], []))
    both = entries.only(f"entry.any = value when {condition} and ->leaf == 0")
    assert [*both.tags, *both.told][0] == tag
    assert len([*both.tags, *both.told]) == 2


def test_what_a_link_lies_in(entries: Entries) -> None:
    (inside,) = entries.ruled("leaf in entry.leaf").inside.items()
    assert inside[0] == entries.leaf
    assert inside[1] == [MemberRule(inside[1][0].rule, entries.entry, 40)]


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
        "entry.any = value when .kind == OTHER",
        "entry.any = value when .low == 8",
        "entry.any = value when ->nothing == 1",
        "entry.any = char[] when ->count == 1",
        "entry.any = value when .kind",
        "entry.any = value when .kind == 1 or .kind == 2",
        "leaf in entry.nothing",
        "nothing in entry.any",
    ],
)
def test_a_line_that_says_nothing_of_this_program(entries: Entries, line: str) -> None:
    with pytest.raises(UsageError) as refused:
        entries.ruled("entry.any = value", "", line)
    assert refused.value.message.startswith("app.rules:3: ")
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(("file", "folder"), [(0o666, 0o755), (0o644, 0o777), (None, 0o755)])
def test_files_that_are_not_believed(tmp_path: Path, file: Optional[int], folder: int) -> None:
    """Somebody else can write to it; or there is none."""
    inner = tmp_path / "inner"
    inner.mkdir()
    rules = inner / "app.rules"
    if file is not None:
        rules.write_text("entry.any = value\n")
        rules.chmod(file)
    inner.chmod(folder)
    with pytest.raises(UsageError):
        named_rules(str(rules))
