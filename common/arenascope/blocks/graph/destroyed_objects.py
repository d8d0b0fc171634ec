"""Objects that are destroyed while weak pointers keep their memory: std::make_shared, Rust's Rc and Arc.

The block has the object and the counts of its owners in one. It stays as long as a weak pointer knows it, and so do the
words of the object.
"""

from __future__ import annotations

from array import array
from typing import Iterator, Optional, Sequence, Union

from ...base.class_names import ControlBlock, control_block
from ...engine import places_of
from ..declared.claims import LOCAL
from ..declared.named_blocks import NamedBlocks
from ..recognise.cplusplus import Classes
from ..recognise.module_memory import LoadedModules, ground_of
from ..recognise.selection import USER, Selection
from .blocks import EDGE_SHIFT, STALE
from .pointers_to import ImageSearch, root_pointers
from .roots import Ref, Root

INT = 4
"""Bytes of one of the counts; libc++ has words."""
LIBCXX = "std::__shared_ptr"
"""How the names of its control blocks begin."""
PLAIN = ("std::allocator<", "std::default_delete<", "std::__sp_array_delete", "(__gnu_cxx::_Lock_policy)")
"""How arguments of control blocks begin that have no bytes in them: allocators, deleters, how owners are counted."""
MOST_COUNT = 1 << 31
RUST = {"alloc::rc::RcBox": "value", "alloc::rc::RcInner": "value", "alloc::sync::ArcInner": "data"}
"""What Rc and Arc point to, and the member that is the object."""


def destroyed_objects(search: ImageSearch, named: Optional[NamedBlocks]) -> Iterator[tuple[Sequence[int], int]]:
    """(numbers of blocks whose object is destroyed, how many bytes of each are the counts). `named`: what blocks are by
    debug information, where that is known."""
    # the counts say the same while a destructor runs, but then its thread has a pointer to the block
    being_destroyed = {
        seed.edge >> EDGE_SHIFT
        for seed in root_pointers(search)
        if not seed.edge & STALE and not _is_variables(search.roots.of(seed.root))
    }
    ground, blocks = ground_of(search.session), Selection(search.engine)
    found = [*_of_cplusplus(ground, blocks, named)]
    if named is not None:
        found += _of_rust(blocks, named, ground.memory.pointer_size)
    for numbers, front in found:
        yield [each for each in numbers if each not in being_destroyed], front


def _is_variables(root: Union[Root, Ref]) -> bool:
    return isinstance(root, Root) and root.kind in ("global", "tls")


def _of_cplusplus(
    ground: LoadedModules, blocks: Selection, named: Optional[NamedBlocks]
) -> Iterator[tuple[Sequence[int], int]]:
    """By the vtables of control blocks."""
    word, classes = ground.memory.pointer_size, Classes(ground)
    table = USER.number(word)
    uses, weak = (USER + word).number(INT), (USER + word + INT).number(INT)
    is_destroyed = (uses == 0) & weak.between(1, MOST_COUNT)
    # libc++ has counts that are less by one
    libcxx_uses, libcxx_weak = (USER + word).number(word), (USER + 2 * word).number(word)
    is_destroyed_in_libcxx = (libcxx_uses == (1 << 8 * word) - 1) & (libcxx_weak < MOST_COUNT)
    asked = blocks.where(table.lies_in(ground.page_spans) & (is_destroyed | is_destroyed_in_libcxx))
    for address, numbers in blocks.grouped(table, asked):
        of = classes.vtable_class(address)
        control = control_block(of.name) if of is not None and not of.top else None
        if control is None or not _is_plain(control):
            continue
        if not control.template.startswith(LIBCXX):
            yield blocks.where(is_destroyed, numbers), word + 2 * INT
            continue
        # what is freed keeps the counts of what a single weak pointer knows
        several = {*blocks.where(is_destroyed_in_libcxx & (libcxx_weak > 0), numbers)}
        single = blocks.where(is_destroyed_in_libcxx & (libcxx_weak == 0), numbers)
        yield sorted(several.union(each for each in single if named and named.is_certain(each))), 3 * word


def _is_plain(control: ControlBlock) -> bool:
    """Whether nothing follows the counts but the object, or a pointer to it."""
    is_librarys = control.template.startswith("std::")
    return is_librarys and all(each.startswith(PLAIN) for each in control.arguments[1:])


def _of_rust(blocks: Selection, named: NamedBlocks, word: int) -> Iterator[tuple[Sequence[int], int]]:
    """By debug information."""
    for number, name in enumerate(named.names):
        member = RUST.get(name.text.partition("<")[0])
        if member is None or name.form != "object" or name.type is None:
            continue
        places = {each.name: each.offset for each in named.types.facts(name.type).fields}
        if not {"strong", "weak", member} <= places.keys():
            continue
        among = array("I", (each for each in places_of(number, named.name) if named.level[each] <= LOCAL))
        strong, weak = ((USER + places[each]).number(word) for each in ("strong", "weak"))
        yield blocks.where((strong == 0) & (weak > 0), among), places[member]
