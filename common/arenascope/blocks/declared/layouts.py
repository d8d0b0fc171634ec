"""Types flattened: what in an object of a type can lead to blocks, in order of offsets.

Members of members and base classes stand at their offsets in the whole. A container that is found stops the descent, as
it alone knows which of its words count. Alternatives of a union are kept apart.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import AbstractSet, Iterator, Literal, NamedTuple, Optional, Sequence

from ...sources.debug_info_types import StructField, TypeFacts, TypeSource
from ..recognise.module_memory import PAGE_SHIFT
from .claims import Container, Library
from .containers import libcxx, libstdcxx
from .memory_reader import MemoryReader

Target = Literal["object", "pointers", "numbers", "text", "anything"]
"""What a pointer leads to: an object whose type is known; pointers (T **); numbers; characters; what nothing tells."""
DEEPEST = 32
"""So far members of members are looked into."""
MOST_SLOTS = 4096
"""Of one layout."""
MOST_MEMBERS = 1 << 14
"""Of one layout, members of members too, whether they lead on or not: nested types have 2^n."""
FEW_POWERS = 2
"""A hash table that is being enlarged has two arrays, and two sizes."""
UNROLLED = 16
"""An array of so many slots at most is taken apart."""
NUMBERS = ("integer", "float", "enum", "boolean")


class Slot(NamedTuple):
    """A pointer in an object."""

    offset: int
    to: Target
    target: Optional[int]
    """The type of what it leads to; None: not known."""
    step: str
    """".log", "" for a variable that is a pointer itself."""
    member: str
    """By the innermost type that has a name: "session.log"; "" for a variable, or an element, that is a pointer."""
    is_void: bool = False
    """A `void *`."""
    is_ruled: bool = False
    """Rules of the user's say what it leads to."""

    @property
    def fits_all(self) -> bool:
        """Whether nothing that it leads to contradicts it."""
        return self.to == "text" or self.is_void


class Embedded(NamedTuple):
    """A standard library's container in an object."""

    offset: int
    container: Container
    step: str
    name: str


class Alternatives(NamedTuple):
    """A union in an object."""

    offset: int
    layouts: Sequence[FlatType]
    step: str


class Repeat(NamedTuple):
    """A counted array in an object."""

    offset: int
    count: int  # type: ignore[assignment]  # tuple.count is of no use here
    layout: FlatType
    step: str


class Bits(NamedTuple):
    """An enum or a boolean in an object, and the bits that its values can have."""

    offset: int
    size: int
    mask: int


class Number(NamedTuple):
    """An integer in an object, which may count what a pointer beside it leads to."""

    offset: int
    size: int


class _Place(NamedTuple):
    """Where a member lies in the whole, and by which steps it is reached."""

    offset: int
    step: str
    depth: int
    label: str
    """What Slot.member begins with."""

    def member(self, field: StructField, facts: TypeFacts) -> _Place:
        step = "" if field.is_base or not field.name else f".{field.name}"
        named = facts.form == "struct" and facts.name and not field.is_base
        label = facts.name if named else self.label + step
        return _Place(self.offset + field.offset, self.step + step, self.depth + 1, label=label)


class FlatType:
    """A type, flattened. An array of unknown length at the end (T[]) is `flexible`: its element's type and offset."""

    def __init__(self, type: int, facts: TypeFacts) -> None:
        self.type, self.size = type, facts.size
        self.name = facts.name
        self.polymorphic = facts.polymorphic
        self.slots: list[Slot] = []
        self.containers: list[Embedded] = []
        self.unions: list[Alternatives] = []
        self.repeats: list[Repeat] = []
        self.numbers: list[Number] = []
        self.powers: list[Number] = []
        """Numbers that may be the binary logarithm of such a count, characters among them."""
        self.bits: list[Bits] = []
        self.flexible: Optional[tuple[int, int]] = None
        self.flexible_label = ""

    @property
    def leads_on(self) -> bool:
        return bool(self.slots or self.containers or self.unions or self.repeats or self.flexible)

    @property
    def parts(self) -> int:
        return len(self.slots) + len(self.containers) + len(self.unions) + len(self.repeats)


class TypeTable:
    """Types by number: a source's, and those that containers make up, which have negative numbers."""

    def __init__(self, source: TypeSource, word: int) -> None:
        self._source, self._word = source, word
        self._facts: dict[int, TypeFacts] = {}
        self._made: dict[tuple[str, int], int] = {}
        self._keys: dict[int, StructField] = {}
        self._names: dict[str, Optional[int]] = {}
        self.met: Sequence[int] = ()
        """Those that the engine met."""

    def facts(self, type: int) -> TypeFacts:
        facts = self._facts.get(type)
        if facts is None:
            facts = self._facts[type] = self._source.facts(type)
        return facts

    def text(self, type: Optional[int]) -> str:
        """A type as people write it; a struct without a name has none."""
        if type is None:
            return "void"
        facts = self.facts(type)
        if facts.form in ("pointer", "reference"):
            inner = self.text(facts.target)
            return f"{inner}*" if inner.endswith("*") else f"{inner} *"
        if facts.form == "array":
            return f"{self.text(facts.target)}[{facts.length if facts.length is not None else ''}]"
        return facts.name

    def known(self) -> Iterator[tuple[int, TypeFacts]]:
        """Those that were met until now."""
        return iter([(type, self.facts(type)) for type in dict.fromkeys([*self._facts, *self.met])])

    def structs(self) -> Iterator[int]:
        """Of the source: all of them, which takes long."""
        return (each.type for each in self._source.structs())

    def structs_of_source_file(self, code: int, least: int, most: int) -> Sequence[int]:
        return self._source.structs_of_source_file(code, least, most)

    def by_name(self, name: str) -> Optional[int]:
        if name not in self._names:
            self._names[name] = self._source.by_name(name)
        return self._names[name]

    def classes_at(self, code: int) -> Sequence[int]:
        return self._source.classes_at(code)

    def pointer_to(self, type: int) -> int:
        if type >= 0:
            return self._source.pointer_to(type)
        pointed = self.facts(type)
        return self._make(TypeFacts(f"{pointed.name} *", "pointer", self._word, target=type))

    def made_up(self, name: str, size: int, fields: Sequence[StructField], key: Optional[StructField] = None) -> int:
        made = self._make(TypeFacts(name, "struct", size, fields=fields))
        if key is not None:
            self._keys[made] = key
        return made

    def key(self, type: int) -> Optional[StructField]:
        """Of what a container made up: where it has its element's key."""
        return self._keys.get(type)

    def adopt(self, number: int, facts: TypeFacts, key: Optional[StructField]) -> None:
        """Takes a type that the engine's containers made up, with its number."""
        self._facts[number] = facts
        self._made[facts.name, facts.size] = number
        if key is not None:
            self._keys[number] = key

    def _make(self, facts: TypeFacts) -> int:
        key = facts.name, facts.size
        if key not in self._made:
            self._made[key] = -1 - len(self._made)
            self._facts[self._made[key]] = facts
        return self._made[key]

    def enclosing(self, type: int, size: int) -> Iterator[int]:
        """The types met until now that begin with an object of this one, and are larger, but of `size` at most."""
        for each, facts in self._facts.items():
            if facts.form == "struct" and self.facts(type).size < facts.size <= size and self.begins_with(each, type):
                yield each

    def begins_with(self, type: int, first: int) -> bool:
        """Whether an object of the type begins with one of the other, as what inherits in C does: with a member of it,
        or with the same members."""
        for _ in range(DEEPEST):
            if type == first or self._has_members_of(type, first):
                return True
            fields = self._facts[type].fields if type in self._facts else ()
            starts = [each.type for each in fields if not each.offset]
            if not starts:
                return False
            type = next((each for each in starts if each == first), starts[0])
        return False

    def _has_members_of(self, type: int, first: int) -> bool:
        """As macros in C make it: `HEAD; int more;`. One member alone says nothing."""
        head = self._facts[first].fields if first in self._facts else ()
        own = self._facts[type].fields if type in self._facts else ()
        return 1 < len(head) < len(own) and own[0] == head[0] and list(own[: len(head)]) == list(head)


class Layouts:
    """The layouts of one program's types, each made when it is asked for."""

    def __init__(self, types: TypeTable, libraries: Sequence[Library], ruled: AbstractSet[str] = frozenset()) -> None:
        """`ruled`: the members, as Slot has them, that rules of the user's are about."""
        self.types = types
        self._libraries, self._ruled = libraries, ruled
        self._known: dict[int, FlatType] = {}
        self._containers: dict[int, Optional[Container]] = {}
        self._members_left = 0
        """Of the layout that is being made."""

    def of(self, type: int) -> FlatType:
        layout = self._known.get(type)
        if layout is None:
            layout = self._made(type, 0)
        return layout

    def _made(self, type: int, depth: int) -> FlatType:
        if type not in self._known:
            self._known[type] = layout = FlatType(type, self.types.facts(type))
            left, self._members_left = self._members_left, MOST_MEMBERS
            self._put(layout, type, _Place(0, "", depth, label=layout.name))
            self._members_left = left
        return self._known[type]

    def container(self, type: int) -> Optional[Container]:
        if type not in self._containers:
            found = (each.container(self.types, type) for each in self._libraries)
            self._containers[type] = next((each for each in found if each is not None), None)
        return self._containers[type]

    def _put(self, layout: FlatType, type: int, at: _Place) -> None:
        """Adds what a member can lead to."""
        facts = self.types.facts(type)
        self._members_left -= 1
        if at.depth > DEEPEST or layout.parts >= MOST_SLOTS or self._members_left < 0:
            return
        if facts.form in ("pointer", "reference"):
            slot = self._slot(facts, at)
            if slot is not None:
                layout.slots.append(slot)
        elif facts.form in ("integer", "character"):
            number = Number(at.offset, facts.size)
            layout.powers.append(number)
            if facts.form == "integer":
                layout.numbers.append(number)
        elif facts.form == "boolean" or (facts.form == "enum" and facts.enumerators):
            values = facts.enumerators.values() if facts.form == "enum" else (1,)
            if min(values) >= 0:
                layout.bits.append(Bits(at.offset, facts.size, reduce(or_, values)))
        elif facts.form == "array" and facts.target is not None:
            self._put_array(layout, facts, at)
        elif facts.form in ("struct", "union"):
            container = self.container(type)
            if container is not None:
                layout.containers.append(Embedded(at.offset, container, at.step, facts.name))
                return
            if facts.form == "union":
                self._put_union(layout, facts, at)
                return
            for field in facts.fields:
                # what would lie outside contradicts itself
                if 0 <= field.offset <= facts.size - self.types.facts(field.type).size:
                    self._put(layout, field.type, at.member(field, self.types.facts(field.type)))

    def _put_array(self, layout: FlatType, facts: TypeFacts, at: _Place) -> None:
        if facts.target is None:
            return
        if not facts.length:
            layout.flexible = facts.target, at.offset
            layout.flexible_label = self.types.facts(facts.target).name or at.label
            return
        inner = self.types.facts(facts.target)
        if inner.form in ("integer", "character") and facts.length <= FEW_POWERS:
            layout.powers += [Number(at.offset + each * inner.size, inner.size) for each in range(facts.length)]
        if inner.form in (*NUMBERS, "character", "void", "other"):
            return
        element = self._made(facts.target, at.depth + 1)
        if not element.size or not element.leads_on:
            return
        if facts.length * element.parts > UNROLLED or element.flexible:
            layout.repeats.append(Repeat(at.offset, facts.length, element, f"{at.step}[]"))
            return
        for number in range(facts.length):
            step = f"{at.step}[{number}]"
            place = _Place(at.offset + number * element.size, step, at.depth + 1, label=element.name or at.label)
            self._put(layout, facts.target, place)

    def _put_union(self, layout: FlatType, facts: TypeFacts, at: _Place) -> None:
        alternatives = []
        for field in facts.fields:
            inner = FlatType(field.type, facts)
            self._put(inner, field.type, at._replace(offset=0).member(field, self.types.facts(field.type)))
            if inner.leads_on:
                alternatives.append(inner)
        if alternatives:
            layout.unions.append(Alternatives(at.offset, alternatives, at.step))

    def _slot(self, facts: TypeFacts, at: _Place) -> Optional[Slot]:
        """None for a pointer to a function."""
        if facts.target is None:
            return Slot(
                at.offset, "anything", None, at.step, member=at.label, is_void=True, is_ruled=at.label in self._ruled
            )
        pointed = self.types.facts(facts.target)
        if pointed.form == "function":
            return None
        to: Target = "anything"
        if pointed.form in ("pointer", "reference"):
            to = "pointers"
        elif pointed.name == "u8":
            # Rust's containers point to it, whatever they have
            to = "anything"
        elif pointed.form == "character" or (pointed.form == "integer" and pointed.size == 1):
            to = "text"
        elif pointed.size and pointed.form in NUMBERS:
            to = "numbers"
        elif pointed.size and pointed.form in ("struct", "union", "array"):
            to = "object"
        return Slot(at.offset, to, facts.target, at.step, member=at.label, is_ruled=at.label in self._ruled)


HIDING = (libstdcxx.INPLACE, f"std::__1::{libcxx.INSIDE}")
"""Templates of classes."""


class DynamicClass(NamedTuple):
    """What a vtable tells."""

    top: int
    type: int
    size: int
    hides_object: bool
    """Debug information has the object in it as bytes: a control block of make_shared. Its container tells more."""


class Vtables:
    """The classes of one image, by the words with which their objects begin."""

    def __init__(self, reader: MemoryReader, types: TypeTable, pages: set[int]) -> None:
        """`pages`: the numbers of those that modules have."""
        self._reader, self._types, self._pages = reader, types, pages
        self._known: dict[int, Optional[DynamicClass]] = {}

    def dynamic(self, value: int, static: FlatType) -> Optional[tuple[DynamicClass, int]]:
        """The class of an object by its vtable, and the block that it is in from its start on."""
        table = self._reader.word(value)
        of = self.class_of(table, static) if table else None
        if of is None:
            return None
        block = self._reader.at(value + of.top)
        return (of, block) if block >= 0 and self._reader.fits(block, of.size, self._reader.slack) else None

    def class_of(self, table: int, static: Optional[FlatType] = None) -> Optional[DynamicClass]:
        """`static`: what a pointer to the object says, where the class may have no name that can be found."""
        if table >> PAGE_SHIFT not in self._pages:
            return None
        known = self._known.get(table)
        if known is None and (table not in self._known or static is not None):
            self._known[table] = known = self._class(table, static)
        return known

    def _class(self, table: int, static: Optional[FlatType]) -> Optional[DynamicClass]:
        told = self._reader.classes.vtable_class(table)
        if told is None:
            return None
        type = self._types.by_name(told.name)
        if type is None and static is not None and static.name == told.name:
            type = static.type
        size = self._types.facts(type).size if type is not None else 0
        if type is None or not size:
            return None
        return DynamicClass(told.top, type, size, told.name.partition("<")[0] in HIDING)
