"""libstdc++'s types that hold a value of another one where that is not declared: what it is, a flag, an index or the
symbol of a function tells. And paths."""

from __future__ import annotations

from typing import Callable, Iterable, Mapping, Optional, Sequence

from ....sources.debug_info_types import Field, TypeFacts
from ....sources.type_spelling import Parts, parts_of
from ..claims import CONTAINER, Claim, Container, Reader, Types
from .parts import DEEPEST, Member, argument, find

INT = 4
MOST_COUNT = 1 << 31
"""Of parts of a path."""
FUNCTOR = 2
"""So many words a function object may have that lies inside a std::function."""
MANAGERS = {"std::_Function_handler": 1, "std::_Function_base::_Base_manager": 0}
"""Classes whose `_M_manager` copies and destroys a functor, and which argument it is: since GCC 11, before."""
KEPT_OUTSIDE, KEPT_INSIDE = "std::any::_Manager_external", "std::any::_Manager_internal"
MOST_ALTERNATIVES = 255


class Perhaps:
    """optional: a value, and whether there is one."""

    def __init__(self, value: int, flag: int, type: int) -> None:
        self._value, self._flag, self._type = value, flag, type

    def _engaged(self, reader: Reader, address: int) -> Optional[bool]:
        flag = reader.number(address + self._flag, 1)
        return flag == 1 if flag in (0, 1) else None

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        engaged = self._engaged(reader, address)
        if not engaged:
            return None if engaged is None else ()
        return (Claim(address + self._value, self._type, CONTAINER, "", inline=True),)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        return self._engaged(reader, address)


def _optional(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    held = argument(types, facts, 0)
    value = find(types, type, "_M_payload._M_payload._M_value") or find(types, type, "_M_payload._M_value")
    flag = find(types, type, "_M_payload._M_engaged")
    if held is None or value is None or flag is None or types.facts(value.type).size != types.facts(held).size:
        return None
    return Perhaps(value.offset, flag.offset, held)


class OneOf:
    """variant: which alternative it has, and its value; all lie in one place."""

    def __init__(self, index: int, size: int, value: int, types: Sequence[Optional[int]]) -> None:
        self._index, self._size, self._value, self._types = index, size, value, types

    def _which(self, reader: Reader, address: int) -> Optional[int]:
        """-1: none, as an exception left it."""
        number = reader.number(address + self._index, self._size)
        if number == (1 << 8 * self._size) - 1:
            return -1
        return number if number is not None and number < len(self._types) else None

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        which = self._which(reader, address)
        if which is None:
            return None
        type = self._types[which] if which >= 0 else None
        return (Claim(address + self._value, type, CONTAINER, "", inline=True),) if type is not None else ()

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        which = self._which(reader, address)
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


def _class_of(reader: Reader, function: int, method: str) -> Optional[Parts]:
    """The class of which that is the method."""
    name, found, _ = (reader.symbol(function) or "").partition(method)
    return parts_of(name) if found else None


class AnyValue:
    """any: the function that copies and destroys its value is of a template that has its type."""

    def __init__(self, types: Types, manager: int, storage: int) -> None:
        self._types, self._manager, self._storage = types, manager, storage

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        manager, held = reader.word(address + self._manager), reader.word(address + self._storage)
        if not manager or held is None:
            return None if manager is None or held is None else ()
        parts = _class_of(reader, manager, "::_S_manage(")
        if parts is None or parts.template not in (KEPT_OUTSIDE, KEPT_INSIDE):
            return None
        type = self._types.by_name(parts.arguments[0])
        if type is None:
            return ()
        if parts.template == KEPT_INSIDE:
            return (Claim(address + self._storage, type, CONTAINER, "", inline=True),)
        return (Claim(held, type, CONTAINER, ""),) if reader.holds(held, self._types.facts(type).size) else None

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        manager = reader.word(address + self._manager)
        return None if manager is None else int(manager != 0)


def _any(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    manager, storage = find(types, type, "_M_manager"), find(types, type, "_M_storage")
    return AnyValue(types, manager.offset, storage.offset) if manager is not None and storage is not None else None


class Function:
    """function: its manager is a template's, too. A functor lies inside if it is small and its bytes may be copied."""

    def __init__(self, types: Types, manager: int, functor: int, word: int) -> None:
        self._types, self._manager, self._functor, self._word = types, manager, functor, word

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        manager, held = reader.word(address + self._manager), reader.word(address + self._functor)
        if not manager or held is None:
            return None if manager is None or held is None else ()
        parts = _class_of(reader, manager, "::_M_manager(")
        if parts is None or MANAGERS.get(parts.template, len(parts.arguments)) >= len(parts.arguments):
            return None
        type = self._types.by_name(parts.arguments[MANAGERS[parts.template]])
        size = self._types.facts(type).size if type is not None else 0
        if type is None or not size:
            return ()
        outside = reader.holds(held, size)
        inside = size <= FUNCTOR * self._word and _may_be_copied(self._types, type)
        if inside and not outside:
            return (Claim(address + self._functor, type, CONTAINER, "", inline=True),)
        if outside and (size > FUNCTOR * self._word or not inside):
            return (Claim(held, type, CONTAINER, ""),)
        # a small one whose first word may be its own, or leads to it: both would fit
        return () if inside else None

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        manager = reader.word(address + self._manager)
        return None if manager is None else int(manager != 0)


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
    return Function(types, manager.offset, functor.offset, types.facts(manager.type).size)


class Path:
    """filesystem::path: a string, and the parts of a path that has several, after two ints that count them. The
    pointer's lowest bits say what kind of path it is."""

    def __init__(self, text: Member, parts: int, part: int, size: int) -> None:
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
    part = types.made_up(f"{facts.name}::_Cmpt", facts.size + word, (Field("", 0, type),))
    return Path(text, parts.offset, part, facts.size + word)


Form = Callable[[Types, int, TypeFacts], Optional[Container]]
VALUES: Mapping[str, Form] = {
    "optional": _optional,
    "variant": _variant,
    "any": _any,
    "function": _function,
    "filesystem::path": _path,
}
