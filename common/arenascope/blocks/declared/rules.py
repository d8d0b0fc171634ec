"""Rules of the user's (rule_lines.py), with the types that debug information has of what they name."""

from __future__ import annotations

from operator import eq, ge, gt, le, lt, ne
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.errors import UsageError
from ...base.model import Statement
from ...sources.debug_info_types import BitField, StructField
from .layouts import TypeTable
from .memory_reader import MemoryReader
from .rule_files import RuleText
from .rule_lines import AND_MORE, CHARACTERS, Condition, Rule, Unread, read_rules, split

DEEPEST = 16
UNREAD, CONTRADICTED = "rule-unread", "rule-contradicted"


COMPARISONS = {"==": eq, "!=": ne, "<": lt, ">": gt, "<=": le, ">=": ge}


class Tag(NamedTuple):
    """What a member has to be."""

    bits: BitField
    sign: str
    value: int

    def is_there(self, reader: MemoryReader, at: int) -> bool:
        """Of the object that begins there."""
        bits = self.bits
        first, last = bits.offset // 8, (bits.offset + bits.size - 1) // 8
        number = reader.number(at + first, last + 1 - first)
        if number is None:
            return False
        shift = bits.offset % 8
        if reader.byte_order == "big":
            shift = 8 * (last + 1 - first) - shift - bits.size
        number = number >> shift & ((1 << bits.size) - 1)
        if bits.signed and number >> bits.size - 1:
            number -= 1 << bits.size
        return bool(COMPARISONS[self.sign](number, self.value))


class PointerRule(NamedTuple):
    """What a member leads to."""

    rule: Rule
    offset: int
    """Of the member in its type."""
    target: Optional[int]
    """None: characters."""
    is_array: bool = False
    and_more: bool = False
    back: int = 0
    """So many bytes in front of where it leads the object begins."""
    tags: Sequence[Tag] = ()
    """Of the object that has the member."""
    told: Sequence[Tag] = ()
    """Of the object to which it leads."""


class MemberRule(NamedTuple):
    """Which object a pointer leads into."""

    rule: Rule
    whole: int
    offset: int


class ProgramRules:
    """Of one program. `pointers` by the name that blocks get by the member; `inside` by what a pointer is to."""

    def __init__(self, types: TypeTable, said: Sequence[Union[Rule, Unread]] = ()) -> None:
        self._types = types
        self.pointers: dict[str, list[PointerRule]] = {}
        self.inside: dict[int, list[MemberRule]] = {}
        self.unread: list[Unread] = []
        for each in said:
            why = each if isinstance(each, Unread) else self._add(each)
            if why is not None:
                self.unread.append(why)

    def _add(self, rule: Rule) -> Optional[Unread]:
        try:
            holder = self._type(rule.holder)
            place = self._member(holder, rule.member)
            if rule.kind == "lies in":
                self.inside.setdefault(self._type(rule.target), []).append(MemberRule(rule, holder, place.offset))
            else:
                self.pointers.setdefault(rule.label, []).append(self._pointer(rule, holder, place))
        except LookupError as error:
            return Unread(rule.line, str(error.args[0]))
        return None

    def _pointer(self, rule: Rule, holder: int, place: StructField) -> PointerRule:
        facts = self._types.facts(place.type)
        in_array = facts.form == "array"
        while facts.form == "array" and facts.target is not None:
            facts = self._types.facts(facts.target)
        if facts.form not in ("pointer", "reference"):
            raise LookupError(f"{rule.label} is no pointer")
        tags = [self._tag(holder, each) for each in rule.conditions if not each.of_target]
        if tags and in_array:
            raise LookupError(f"{rule.label} is an array: no member beside it tells what all of them lead to")
        found = PointerRule(rule, place.offset, None, tags=tags)
        if rule.target not in CHARACTERS:
            found = self._pointed(found, rule.target)
        told = [each for each in rule.conditions if each.of_target]
        if told and (found.target is None or found.is_array):
            raise LookupError(f"{rule.target} has no members for a condition")
        return found._replace(told=[self._tag(found.target, each) for each in told if found.target is not None])

    def _pointed(self, found: PointerRule, name: str) -> PointerRule:
        if name.endswith(AND_MORE):
            return found._replace(target=self._type(name[: -len(AND_MORE)]), and_more=True)
        if name.endswith("[]"):
            return found._replace(target=self._type(name[:-2]), is_array=True)
        within = split(name)
        if within is None or self._types.by_name(name) is not None:
            return found._replace(target=self._type(name))
        whole = self._type(within[0])
        return found._replace(target=whole, back=self._member(whole, within[1]).offset)

    def _type(self, name: str) -> int:
        found = self._types.by_name(name.strip())
        if found is None or not self._types.facts(found).size:
            raise LookupError(f"this program has no type {name}, or several")
        return found

    def _member(self, type: int, path: str) -> StructField:
        """By the names on the way. LookupError where the type has none of that name, or the way leads through a type
        that has a name of its own: its members are called by that."""
        offset, label = 0, self._types.facts(type).name
        for index, name in enumerate(path.split(".")):
            facts = self._types.facts(type)
            if index and facts.form == "struct" and facts.name:
                rest = ".".join(path.split(".")[index:])
                raise LookupError(f"{label}.{path} is called {facts.name}.{rest}")
            found = next((each for each in self._fields(type) if each.name == name), None)
            if found is None:
                raise LookupError(f"{facts.name or label} has no member {name}")
            offset, type = offset + found.offset, found.type
        return StructField(path, offset, type)

    def _fields(self, type: int, offset: int = 0, depth: int = 0) -> Iterator[StructField]:
        """With those of bases and of structs and unions without a name."""
        for each in self._types.facts(type).fields if depth < DEEPEST else ():
            if each.is_base or not each.name:
                yield from self._fields(each.type, offset + each.offset, depth + 1)
            else:
                yield each._replace(offset=offset + each.offset)

    def _tag(self, type: int, said: Condition) -> Tag:
        name = f"{self._types.facts(type).name}.{said.member}"
        enumerators: Mapping[str, int] = {}
        bits = next((each for each in self._types.facts(type).bits if each.name == said.member), None)
        if bits is None:
            place = self._member(type, said.member)
            facts = self._types.facts(place.type)
            if facts.form not in ("integer", "character", "boolean", "enum", "pointer"):
                raise LookupError(f"{name} is no number")
            bits, enumerators = BitField(said.member, place.offset * 8, facts.size * 8, facts.signed), facts.enumerators
        value = said.value if isinstance(said.value, int) else enumerators.get(said.value.rpartition("::")[2])
        least = -(1 << bits.size - 1) if bits.signed else 0
        if value is None or not least <= value < least + (1 << bits.size):
            raise LookupError(f"{name} is never {said.value}")
        return Tag(bits, said.sign, value)


def made(types: TypeTable, text: Optional[RuleText]) -> ProgramRules:
    """UsageError where a line of a file that somebody named is about what the program does not have."""
    if text is None:
        return ProgramRules(types)
    found = ProgramRules(types, [*read_rules(text.text)])
    if found.unread and text.named:
        first = found.unread[0]
        raise UsageError(f"{text.path}:{first.line}: {first.why}")
    return found


def doubts(rules: ProgramRules, text: Optional[RuleText], contradicted: Mapping[Rule, int]) -> Iterator[Statement]:
    """Lines that were not read, and blocks to which others were not applied. What comes with arenascope may be for
    another release of the program, and is for several tables: it says nothing."""
    if text is None or text.shipped:
        return
    for unread in rules.unread:
        yield Statement(UNREAD, {"line": unread.line}, {"file": text.path, "why": unread.why})
    for rule, blocks in contradicted.items():
        yield Statement(CONTRADICTED, {"line": rule.line, "blocks": blocks}, {"file": text.path, "rule": rule.text})
