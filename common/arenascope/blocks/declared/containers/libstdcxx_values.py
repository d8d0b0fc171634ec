"""libstdc++'s types that hold a value of another one where that is not declared: what it is, a flag, an index or the
symbol of a function tells. And paths."""

from __future__ import annotations

from typing import Iterable, Mapping, NamedTuple, Optional, Sequence

from ....sources.debug_info_types import StructField, TypeFacts
from ....sources.type_spelling import parts_of
from ..claims import CONTAINER, Claim, Container, Reader, Types
from .forms import Form, OfValue
from .parts import DEEPEST, PlacedMember, argument, find

INT = 4
MOST_COUNT = 1 << 31
"""Of parts of a path."""
FUNCTOR = 2
"""So many words a function object may have that lies inside a std::function."""
KEPT_INSIDE = "std::any::_Manager_internal"
INSIDE_IN_LIBCXX = "std::__1::__any_imp::_SmallHandler"
MANAGERS = {
    "std::_Function_handler": 1,
    "std::_Function_base::_Base_manager": 0,
    "std::any::_Manager_external": 0,
    **dict.fromkeys((KEPT_INSIDE, INSIDE_IN_LIBCXX, "std::__1::__any_imp::_LargeHandler"), 0),
}
"""Class templates whose function copies and destroys what is held, and which argument it is; the first since GCC 11."""
MOST_ALTERNATIVES = 255


class Perhaps(OfValue):
    """optional: a value, and whether there is one."""

    def __init__(self, value: int, flag: int, type: int) -> None:
        super().__init__(value, (None, type))
        self._flag = flag

    def which(self, reader: Reader, address: int) -> Optional[int]:
        flag = reader.number(address + self._flag, 1)
        return flag if flag in (0, 1) else None


def _optional(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    held = argument(types, facts, 0)
    value = find(types, type, "_M_payload._M_payload._M_value") or find(types, type, "_M_payload._M_value")
    flag = find(types, type, "_M_payload._M_engaged")
    if held is None or value is None or flag is None or types.facts(value.type).size != types.facts(held).size:
        return None
    return Perhaps(value.offset, flag.offset, held)


class OneOf(OfValue):
    """variant: which alternative it has, and its value; all lie in one place."""

    def __init__(self, index: int, size: int, value: int, types: Sequence[Optional[int]]) -> None:
        super().__init__(value, (*types, None))
        self._index, self._size = index, size

    def which(self, reader: Reader, address: int) -> Optional[int]:
        """-1: none, as an exception left it."""
        number = reader.number(address + self._index, self._size)
        if number == (1 << 8 * self._size) - 1:
            return -1
        return number if number is not None and number < len(self._types) - 1 else None

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        """A type that debug information does not have is one, too."""
        which = self.which(reader, address)
        return None if which is None else int(which >= 0)


def _variant(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    index, value = find(types, type, "_M_index"), find(types, type, "_M_u")
    if index is None or value is None:
        return None
    alternatives: list[Optional[int]] = []
    # one in the other, each with its first alternative
    place = value
    while True:
        first, rest = find(types, place.type, "_M_first"), find(types, place.type, "_M_rest")
        if first is None:
            break
        if first.offset:
            return None
        alternatives.append(argument(types, types.facts(first.type), 0))
        if rest is None or len(alternatives) > MOST_ALTERNATIVES:
            break
        place = rest
    if not alternatives:
        return None
    return OneOf(index.offset, types.facts(index.type).size, value.offset, alternatives)


class Managed(NamedTuple):
    """What the managing function of an any or a function tells."""

    template: str
    name: str
    """Of what is held, as the function's symbol has it."""
    types: Sequence[int]
    """Several, where the debug information has them by one name."""


class Manager:
    """What a pointer to a managing function tells: it is of a class template that has the value's type."""

    def __init__(self, types: Types, place: int, method: str) -> None:
        self.types, self._place, self._method = types, place, method
        self._known: dict[int, Optional[Managed]] = {}

    def function(self, reader: Reader, address: int) -> Optional[int]:
        """0: nothing is held."""
        return reader.word(address + self._place)

    def managed(self, reader: Reader, function: int) -> Optional[Managed]:
        """None if it is no such function."""
        if function not in self._known:
            self._known[function] = self._found(reader, function)
        return self._known[function]

    def _found(self, reader: Reader, function: int) -> Optional[Managed]:
        name, is_method, _ = (reader.symbol(function) or "").partition(self._method)
        parts = parts_of(name) if is_method else None
        place = MANAGERS.get(parts.template) if parts is not None else None
        if parts is None or place is None or place >= len(parts.arguments):
            return None
        held, types = parts.arguments[place], []
        for each in self.types.classes_at(function):
            facts = self.types.facts(each)
            type = facts.arguments[place].type if place < len(facts.arguments) else None
            if type is not None and facts.name.startswith(f"{parts.template}<"):
                types.append(type)
        named = self.types.by_name(held) if not types else None
        return Managed(parts.template, held, types if named is None else [named])

    def claim(self, address: int, type: int, managed: Managed) -> Claim:
        """A lambda has no name in debug information."""
        name = "" if self.types.facts(type).name else managed.name
        return Claim(address, type, CONTAINER, "", name=name)


class AnyValue:
    """any."""

    def __init__(self, manager: Manager, storage: int) -> None:
        self._manager, self._storage = manager, storage

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        function, held = self._manager.function(reader, address), reader.word(address + self._storage)
        if not function or held is None:
            return None if function is None or held is None else ()
        managed = self._manager.managed(reader, function)
        if managed is None or len(managed.types) != 1:
            return None if managed is None else ()
        type = managed.types[0]
        if managed.template in (KEPT_INSIDE, INSIDE_IN_LIBCXX):
            return (Claim(address + self._storage, type, CONTAINER, "", inline=True),)
        if not reader.holds(held, self._manager.types.facts(type).size):
            return None
        return (self._manager.claim(held, type, managed),)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        function = self._manager.function(reader, address)
        return None if function is None else int(function != 0)


def _any(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    manager, storage = find(types, type, "_M_manager"), find(types, type, "_M_storage")
    if manager is None or storage is None:
        return None
    return AnyValue(Manager(types, manager.offset, "::_S_manage("), storage.offset)


class Function:
    """function. A functor lies inside if it is small and its bytes may be copied."""

    def __init__(self, manager: Manager, functor: int) -> None:
        self._manager, self._functor = manager, functor

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        function, held = self._manager.function(reader, address), reader.word(address + self._functor)
        if not function or held is None:
            return None if function is None or held is None else ()
        managed = self._manager.managed(reader, function)
        if managed is None or not managed.types:
            return None if managed is None else ()
        types, inside, outside = self._manager.types, [], []
        for type in managed.types:
            facts = types.facts(type)
            is_block = facts.size > 0 and reader.holds(held, facts.size)
            if not facts.size or (facts.size <= FUNCTOR * reader.word_size and _may_be_copied(types, type)):
                if is_block and facts.name and facts.form == "struct":
                    # who wrote it may have forbidden to copy its bytes: both would fit
                    return ()
                inside.append(type)
            elif is_block:
                outside.append(type)
        if not inside and not outside:
            return None
        if len(outside) > 1:
            # malloc gives a block that is too large only where the rest would be too small for another
            outside = [each for each in outside if _is_full(reader, held, types.facts(each).size)]
        if len(outside) == 1 and not any(_begins_with_pointer(types, each) for each in inside):
            return (self._manager.claim(held, outside[0], managed),)
        if len(inside) != 1 or outside:
            return ()
        return (Claim(address + self._functor, inside[0], CONTAINER, "", inline=True),)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        function = self._manager.function(reader, address)
        return None if function is None else int(function != 0)


def _is_full(reader: Reader, block: int, size: int) -> bool:
    usable, word = reader.usable(block), reader.word_size
    return usable is not None and usable < max(size, 3 * word) + 2 * word


def _begins_with_pointer(types: Types, type: int) -> bool:
    facts = types.facts(type)
    return facts.form == "pointer" or any(
        not each.offset and _begins_with_pointer(types, each.type) for each in facts.fields
    )


def _may_be_copied(types: Types, type: int, deepest: int = DEEPEST) -> bool:
    """Whether its bytes may be copied, as far as its members tell: none is of a class of the library, none has a
    vtable."""
    facts = types.facts(type)
    if facts.polymorphic or facts.name.startswith("std::") or not deepest:
        return False
    return all(_may_be_copied(types, each.type, deepest - 1) for each in facts.fields)


def _function(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    manager, functor = find(types, type, "_M_manager"), find(types, type, "_M_functor")
    if manager is None or functor is None:
        return None
    return Function(Manager(types, manager.offset, "::_M_manager("), functor.offset)


class Path:
    """filesystem::path: a string, and the parts of a path that has several, after two ints that count them. The
    pointer's lowest bits say what kind of path it is."""

    def __init__(self, text: PlacedMember, parts: int, part: int, size: int) -> None:
        self._text, self._parts, self._part, self._size = text, parts, part, size

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        parts = self._in_parts(reader, address)
        if parts is None:
            return None
        return (Claim(address + self._text.offset, self._text.type, CONTAINER, "", inline=True), *parts)

    def _in_parts(self, reader: Reader, address: int) -> Optional[Sequence[Claim]]:
        word = reader.word(address + self._parts)
        if word is None:
            return None
        block, kind = word & ~3, word & 3
        if not block:
            return ()
        count, room = reader.number(block, INT), reader.number(block + INT, INT)
        if count is None or room is None or not count <= room < MOST_COUNT or (kind and count):
            return None
        if not reader.holds(block, 2 * INT + room * self._size):
            return None
        return (Claim(block, self._part, CONTAINER, "", elements=count, capacity=room, number=0, front=2 * INT),)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        claims = self._in_parts(reader, address)
        return None if claims is None else sum(each.elements or 0 for each in claims)


def _path(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    text, parts = find(types, type, "_M_pathname"), find(types, type, "_M_cmpts")
    letters = find(types, type, "_M_pathname._M_dataplus._M_p")
    if text is None or parts is None or letters is None:
        return None
    word = types.facts(letters.type).size
    # path::_Cmpt, which only the library itself has: a path, and where in the whole it begins
    part = types.made_up(f"{facts.name}::_Cmpt", facts.size + word, (StructField("", 0, type),))
    return Path(text, parts.offset, part, facts.size + word)


VALUES: Mapping[str, Form] = {
    "optional": _optional,
    "variant": _variant,
    "any": _any,
    "function": _function,
    "filesystem::path": _path,
}
