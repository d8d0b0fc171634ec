"""The ways to blocks as people write them, and the containers of a program by these."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Iterator, NamedTuple, Optional, Sequence

from ...sources.type_source import StartVariable
from .named_blocks import ELEMENT, NOBODY, BlockName, NamedBlocks
from .values import Values, key_text

ALIKE = 3
"""So often a step may repeat before it is written once, with a number: a list's "->next"."""
THROUGH_POINTER = ("object", "tail", "union", "field")
MOST_STEPS = 1 << 20
"""Of all ways that one command writes: chains are as long as lists are."""
INDEX = re.compile(r"\[(\d+)\]")


def path_text(named: NamedBlocks, block: int, values: Optional[Values] = None) -> Optional[str]:
    """None where no variable leads there by types, or no expression of the program's can name a struct on the way.
    `values`: what reads keys; None: they may not be shown."""
    start = start_of(named, block)
    if start is None or not named.enclosing.isdisjoint(_way(named, block)):
        return None
    return start_text(named, start) + "".join(_folded(_steps(named, block, values)))


def start_text(named: NamedBlocks, start: StartVariable) -> str:
    """A variable, and whose it is where it is not the main thread's."""
    if start.tid is None or start.tid == named.main_thread:
        return start.label
    frame = f" frame {start.frame}" if start.frame is not None else ""
    return f"thread {start.tid}{frame} {start.label}"


def length_of(named: NamedBlocks, block: int) -> int:
    """So many steps lead to it."""
    return len(_way(named, block))


def start_of(named: NamedBlocks, block: int) -> Optional[StartVariable]:
    """The variable from which a block is reached; None where its own vtable told what it is."""
    number = named.parent[_way(named, block)[0]] if named.name_of(block) is not None else NOBODY
    return named.starts[-1 - number] if number != NOBODY else None


def _way(named: NamedBlocks, block: int) -> list[int]:
    """The blocks on the way to one, which is the last."""
    way = [block]
    while named.parent[way[-1]] >= 0 and len(way) <= len(named.blocks):
        way.append(named.parent[way[-1]])
    return way[::-1]


def _steps(named: NamedBlocks, block: int, values: Optional[Values]) -> Iterator[str]:
    first = 0  # which of a container's elements the block begins with in which a step begins
    for each in _way(named, block):
        step, number, own = named.steps[named.step[each]], named.number[each], named.name_of(each)
        begins, first = first, 0
        if not step.endswith(ELEMENT):
            step = step.replace("[]", f"[{number}]", 1)
        elif own is not None and own.form == "array":
            # a body: the next step tells which of its elements is meant
            step, first = step.removesuffix(ELEMENT), number
        else:
            step = step.replace(ELEMENT, f"[{_key(named, each, number, values)}]")
        if begins:
            step = _moved(step, begins)
        holder = named.name_of(named.parent[each]) if named.parent[each] >= 0 else None
        if holder is not None and step.startswith(".") and is_pointed_to(named, holder):
            step = f"->{step[1:]}"
        yield step


def _moved(step: str, by: int) -> str:
    return INDEX.sub(lambda found: f"[{int(found[1]) + by}]", step, count=1)


def _key(named: NamedBlocks, block: int, number: int, values: Optional[Values]) -> str:
    name = named.name_of(block)
    if values is None or name is None or name.type is None:
        return f"#{number}"
    key = named.types.key(name.type)
    if key is None:
        return f"#{number}"
    return key_text(values.of(key.type, named.blocks.starts[block] + key.offset), number)


def is_pointed_to(named: NamedBlocks, holder: BlockName) -> bool:
    """A node that a container makes up stands for its element; a control block for the object that lies in it."""
    if holder.form not in THROUGH_POINTER or holder.type is None:
        return False
    if holder.type >= 0:
        return True
    fields = named.types.facts(holder.type).fields
    return [each.name for each in fields] == [""]


def _folded(steps: Iterator[str]) -> Iterator[str]:
    for step, alike in groupby(steps):
        count = sum(1 for _ in alike)
        yield f"{step} ({count} times)" if step and count > ALIKE else step * count


class Elements(NamedTuple):
    """How many, and how they are spread."""

    number: int
    largest: int
    """In one container."""
    buckets: Optional[int] = None
    """Of hash tables."""
    longest_chain: Optional[int] = None
    """None: not a hash table, or too many of them."""


class ContainerRow(NamedTuple):
    """All containers that are reached in one way."""

    path: str
    type: str
    """Of lists, trees: of one element."""
    form: str
    """One of CONTAINER_FORMS."""
    links: Sequence[str]
    """The members by which elements lead to each other, where the program links them itself."""
    containers: int
    """Those that have blocks."""
    elements: Elements
    held_blocks: int
    held_bytes: int
    """With all that lies below them."""
    sample: int
    """A block of the largest one."""
    certain: bool
    element: str = ""
    """The struct of the program's own that an element is, or leads to; "": none is known."""
    is_python: bool = False
    """It was found by CPython's objects: the sample is the object, and no block if it is small."""
    matching_blocks: int = 0
    """The blocks that match a condition and to which it leads, if not first."""
    matching_bytes: int = 0
