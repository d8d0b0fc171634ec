"""Changes to malloc_state that releases to come may bring, and what a new member may hold."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from future_rows import Change, fill, insert, move, remove
from heap_mixtures import everything
from heapbuilder import HeapImage, Row

BASES = ["2.44-64", "2.44-i386", "2.44-arm", "2.44-s390x", "2.44-ppc32", "2.36-64"]

VIEWS: dict[str, dict[str, Any]] = {
    "symbols": {"symbols": True},
    "no symbols": {"symbols": False},
    "debug information": {"symbols": True, "structs": True},
}
VALUES: dict[str, Callable[[int], int]] = {
    "0": lambda address: 0,
    "a small number": lambda address: 1,
    "pages": lambda address: 0x21000,
    "its own address": lambda address: address,
    "noise": lambda address: 0xDEADBEEFCAFE1235,
}

STATE: dict[str, Sequence[Change]] = {
    "a word in front of top": [insert("flags", "new")],
    "an int in front of top": [insert("flags", "new", "int")],
    "two words in front of top": [insert("flags", "new"), insert("flags", "new2")],
    "an int in front of flags": [insert("mutex", "new", "int")],
    "a word at the start": [insert("", "new")],
    "a word after top": [insert("top", "new")],
    "a word after last_remainder": [insert("last_remainder", "new")],
    "top after last_remainder": [move("top", "last_remainder")],
    "no last_remainder": [remove("last_remainder")],
    "a word after bins": [insert("bins", "new")],
    "a word after binmap": [insert("binmap", "new")],
    "a word after next": [insert("next", "new")],
    "a word after next_free": [insert("next_free", "new")],
    "two words after next_free": [insert("next_free", "new"), insert("next_free", "new2")],
    "a word in front of system_mem": [insert("attached_threads", "new")],
    "no attached_threads": [remove("attached_threads")],
    "another word for attached_threads": [remove("attached_threads"), insert("next_free", "new")],
    "attached_threads at the end": [move("attached_threads", "max_system_mem")],
    "system_mem in front of attached_threads": [move("system_mem", "next_free")],
    "max_system_mem in front of system_mem": [move("system_mem", "max_system_mem")],
    "a word between system_mem and max_system_mem": [insert("system_mem", "new")],
    "a word after max_system_mem": [insert("max_system_mem", "new")],
}
REFUSED = {"a word after bins", "a word after binmap"}
"""The ring and the bins' distance from it are what an arena is recognised by."""


def lone(row: Row) -> HeapImage:
    """One arena, whose peak is more than it holds."""
    image = HeapImage(row)
    image.main.peak = 1 << 20
    image.main.mix(40)
    return image


def changed(row: Row, value: str, make: Callable[[Row], HeapImage] = everything) -> HeapImage:
    """An image whose new members hold this value."""
    image = make(row)
    for name in ("new", "new2"):
        if name in row.state or name in row.heap_info:
            fill(image, name, VALUES[value])
    return image
