"""libstdc++'s pointers that own: unique_ptr, shared_ptr and weak_ptr with their control blocks."""

from __future__ import annotations

from typing import Iterable, Mapping, NamedTuple, Optional

from ....sources.debug_info_types import StructField, TemplateArgument, TypeFacts
from ....sources.type_spelling import parts_of, spelled
from ..claims import CONTAINER, Claim, Container, Reader, Types
from .forms import Form
from .parts import Object, PlacedMember, alignment, argument, find, inside, object_of, rounded

INT = 4
MOST_COUNT = 1 << 31
"""Of holders of a shared object."""
INSIDE, ALONE, DELETED = "std::_Sp_counted_ptr_inplace", "std::_Sp_counted_ptr", "std::_Sp_counted_deleter"
"""Templates of control blocks: with the object inside, with a pointer to it, with a deleter besides."""
OF_ARRAYS = "std::__sp_array_delete"
DELETERS = ("std::default_delete<", OF_ARRAYS)
CONTROL_STEP = " (control block)"
DISPOSE = 2
"""Which of a control block's virtual functions is `_M_dispose`: after two destructors."""


def _head(types: Types, type: int) -> Optional[PlacedMember]:
    """The first element of a tuple."""
    base = inside(types, type, "std::_Head_base<0")
    head = find(types, base.type, "_M_head_impl") if base is not None else None
    return PlacedMember(base.offset + head.offset, head.type) if base is not None and head is not None else None


def _alone(types: Types, facts: TypeFacts) -> Optional[PlacedMember]:
    """The pointer of one that frees by `delete`, where tuples cannot be read (LLDB 22): it has nothing else."""
    owned, deleter = (each.type for each in (*facts.arguments, TemplateArgument())[:2])
    if owned is None or deleter is None or not types.facts(deleter).name.startswith("std::default_delete<"):
        return None
    whole = types.facts(owned)
    target = whole.target if whole.form == "array" else owned
    pointer = types.pointer_to(target) if target is not None else None
    return PlacedMember(0, pointer) if pointer is not None and types.facts(pointer).size == facts.size else None


class Owned:
    """unique_ptr."""

    def __init__(self, place: int, object: Object) -> None:
        self._place, self._object = place, object

    @property
    def target(self) -> Optional[int]:
        """The type of the one object; None: it has an array."""
        return self._object.type if self._object.front is None else None

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        object = reader.word(address + self._place)
        return None if object is None else self._object.claims(reader, object)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        claims = self.claims(reader, address)
        return None if claims is None else sum(1 if each.elements is None else each.elements for each in claims)


def _unique_ptr(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    if not facts.arguments or facts.arguments[0].type is None:
        return None
    found = _head(types, type) or _alone(types, facts)
    if found is None:
        return None
    object = object_of(types, found.type, types.facts(facts.arguments[0].type).form == "array")
    return Owned(found.offset, object) if object is not None else None


class Counts(NamedTuple):
    """Where a control block has how many share its object, and how many know it."""

    use: int
    weak: int

    @property
    def end(self) -> int:
        return self.weak + INT


class Control(NamedTuple):
    """A class of control blocks, by its vtable's name."""

    type: int
    size: int
    pointer: int = 0
    """Where it has the pointer to its object; 0: the object lies in it."""
    object: Optional[Object] = None
    """What the pointer leads to, if that is known."""

    def claims(self, reader: Reader, block: int, alive: bool) -> Iterable[Claim]:
        yield Claim(block, self.type, CONTAINER, CONTROL_STEP if self.pointer else "", words=alive)
        object = reader.word(block + self.pointer) if self.object is not None and alive else None
        if object and self.object is not None:
            yield from self.object.claims(reader, object) or ()


class Block(NamedTuple):
    """A control block that has proved itself; at 0: none."""

    address: int
    uses: int
    control: Optional[Control]
    """None: it is not known how it is made."""


class Shared:
    """shared_ptr and weak_ptr: the control block says by its vtable what it is and where its object is; where the
    pointer leads is of no account, as it may lead to a part of another object."""

    def __init__(self, types: Types, place: int, counts: Counts, held: Optional[int]) -> None:
        self._types, self._place, self._counts, self._held = types, place, counts, held
        self._known: dict[int, Optional[Control]] = {}

    def _block(self, reader: Reader, address: int) -> Optional[Block]:
        block = reader.word(address + self._place)
        if not block:
            return None if block is None else Block(0, 0, None)
        table, counted = reader.word(block), self._counted(reader, block)
        if not table or counted is None or reader.usable(block) is None:
            return None
        if table not in self._known:
            name = reader.class_of(table)
            if name is None:
                return None
            dispose = reader.word(table + DISPOSE * reader.word_size)
            self._known[table] = self._control(name, reader.word_size, dispose or 0)
        control = self._known[table]
        if control is not None and not reader.holds(block, control.size):
            return None
        return Block(block, counted.use, control)

    def _counted(self, reader: Reader, block: int) -> Optional[Counts]:
        """How many hold the object, and the block; None: it has no such counts."""
        uses, weaks = (reader.number(block + place, INT) for place in self._counts)
        if uses is None or weaks is None or uses >= MOST_COUNT or not 0 < weaks < MOST_COUNT:
            return None
        return Counts(uses, weaks)

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        found = self._block(reader, address)
        if found is None or found.control is None:
            return None if found is None else ()
        return found.control.claims(reader, found.address, bool(found.uses))

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        found = self._block(reader, address)
        return None if found is None else int(found.uses > 0)

    def _control(self, name: str, word: int, method: int) -> Optional[Control]:
        """By the class's name and one of its methods. None where it is not known how it is made."""
        parts, types = parts_of(name), self._types
        if parts is None or parts.template not in (INSIDE, ALONE, DELETED):
            return None
        own = types.by_name(name)
        if own is None:
            # where a lambda is among its arguments, debug information spells it in another way
            classes = [
                each for each in types.classes_at(method) if types.facts(each).name.startswith(f"{parts.template}<")
            ]
            own = classes[0] if len(classes) == 1 else None
        if parts.template == INSIDE:
            return self._with_object(name, parts.arguments[0], own, word)
        deleter = parts.arguments[1] if parts.template == DELETED else ""
        is_array = "[]" in deleter or deleter == OF_ARRAYS
        if own is not None:
            pointer = find(types, own, "_M_ptr") or find(types, own, "_M_impl._M_ptr")
            if pointer is None:
                return None
            return Control(own, types.facts(own).size, pointer.offset, object_of(types, pointer.type, is_array))
        # clang leaves its members out; the library's deleters have no bytes
        target = types.by_name(parts.arguments[0].removesuffix("*"))
        if target is None or (deleter and not deleter.startswith(DELETERS)):
            return None
        place, pointer_type = rounded(self._counts.end, word), types.pointer_to(target)
        made = types.made_up(name, place + word, (StructField("_M_ptr", place, pointer_type),))
        return Control(made, place + word, place, object_of(types, pointer_type, is_array))

    def _with_object(self, name: str, of: str, own: Optional[int], word: int) -> Optional[Control]:
        """What make_shared makes: a vtable, two counts, an allocator that mostly has no bytes, and the object."""
        types, held = self._types, self._held
        type = types.by_name(of)
        if type is None and held is not None and spelled(types.facts(held).name) == spelled(of):
            type = held
        if type is None or not types.facts(type).size:
            return None
        to = alignment(types, type, word)
        place = rounded(self._counts.end, to)
        size = rounded(place + types.facts(type).size, max(word, to))
        if own is not None and types.facts(own).size:
            names = ("_M_impl._M_storage", "_M_obj", "__storage_")
            storage = next((found for each in names if (found := find(types, own, each)) is not None), None)
            if storage is None:
                return None
            place, size = storage.offset, types.facts(own).size
        return Control(types.made_up(name, size, (StructField("", place, type),)), size)


def _shared_ptr(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    block = find(types, type, "_M_refcount._M_pi")
    base = types.facts(block.type).target if block is not None else None
    if block is None or base is None:
        return None
    uses, weaks = find(types, base, "_M_use_count"), find(types, base, "_M_weak_count")
    if uses is None or weaks is None:
        return None
    return Shared(types, block.offset, Counts(uses.offset, weaks.offset), argument(types, facts, 0))


POINTERS: Mapping[str, Form] = {"unique_ptr": _unique_ptr, "shared_ptr": _shared_ptr, "weak_ptr": _shared_ptr}
