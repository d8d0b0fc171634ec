"""The way to a block as a programmer writes it: `srv->sessions->buckets[2021]->log`, `main(): book.open[#3].second`.

Elements of what is no array are numbered in the order of their container: [#3].
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Iterator, Optional

from .named_blocks import ELEMENT, NOBODY, BlockName, NamedBlocks, Start

ALIKE = 3
"""So often a step may repeat before it is written once, with a number: a list's "->next"."""
THROUGH_POINTER = ("object", "tail", "union", "field")
INDEX = re.compile(r"\[(\d+)\]")


def path_text(named: NamedBlocks, block: int) -> Optional[str]:
    """None where no variable leads there by types, or no expression of the program's can name a struct on the way."""
    start = start_of(named, block)
    if start is None or named.name_of(block) is None or not named.enclosing.isdisjoint(_way(named, block)):
        return None
    return start.label + "".join(_folded(_steps(named, block)))


def start_of(named: NamedBlocks, block: int) -> Optional[Start]:
    """The variable from which a block is reached; None where its own vtable told what it is."""
    way = _way(named, block)
    number = named.parent[way[0]]
    return named.starts[-1 - number] if number != NOBODY else None


def _way(named: NamedBlocks, block: int) -> list[int]:
    """The blocks on the way to one, which is the last."""
    way = [block]
    while named.parent[way[-1]] >= 0 and len(way) <= len(named.blocks):
        way.append(named.parent[way[-1]])
    return way[::-1]


def _steps(named: NamedBlocks, block: int) -> Iterator[str]:
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
            step = step.replace(ELEMENT, f"[#{number}]")
        if begins:
            step = _moved(step, begins)
        holder = named.name_of(named.parent[each]) if named.parent[each] >= 0 else None
        if holder is not None and step.startswith(".") and is_pointed_to(holder):
            step = f"->{step[1:]}"
        yield step


def _moved(step: str, by: int) -> str:
    return INDEX.sub(lambda found: f"[{int(found[1]) + by}]", step, count=1)


def is_pointed_to(holder: BlockName) -> bool:
    """A node that a container makes up stands for its element."""
    return holder.form in THROUGH_POINTER and holder.type is not None and holder.type >= 0


def _folded(steps: Iterator[str]) -> Iterator[str]:
    for step, alike in groupby(steps):
        count = sum(1 for _ in alike)
        yield f"{step} ({count} times)" if step and count > ALIKE else step * count
