"""What the rows of `heap waste` say in words, and what to do about each: on its screen and in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.heap_model import Statement
from ..shared_text.lines_and_tables import Style, count, share
from .type_lines import GUESS

if TYPE_CHECKING:
    from ...blocks.declared.waste_rows import WasteRow

IN_RUST = ("alloc::", "std::collections::", "hashbrown::")


def advice(row: WasteRow) -> Statement:
    """What to change in the program."""
    figures = {"bytes": row.unused, "resident_bytes": row.resident, "containers": row.number}
    return Statement(_advice_id(row), figures, {"path": row.path})


def _advice_id(row: WasteRow) -> str:
    is_rust, is_library = row.type.startswith(IN_RUST), "<" in row.type or "::" in row.type
    if row.reason == "unused-room":
        return "shrink-to-fit" if is_rust or is_library else "realloc-to-fit"
    if row.reason == "emptied":
        return "shrink-emptied" if is_rust else "swap-with-empty" if is_library else "free-emptied"
    if row.reason == "destroyed-kept":
        return "drop-expired" if is_rust else "drop-expired-or-apart"
    if row.reason == "duplicates":
        return "share-texts" if row.is_text else "share-copies"
    if row.reason == "unlisted" and row.elsewhere is None:
        return "sweep-table"
    return row.reason


ADVICE = {
    "shrink-to-fit": "reserve what is needed, not the most that may come; `shrink_to_fit()` (for hash tables also "
    "`rehash(0)`) once no more is added, but not where the room is soon filled again",
    "realloc-to-fit": "allocate what is needed, not the most that may come; `realloc` once no more is added, "
    "but not where the room is soon filled again",
    "shrink-emptied": "`shrink_to_fit()` after `clear()`, or put a new one in its place (`std::mem::take`)",
    "swap-with-empty": "`clear()` keeps the room: `shrink_to_fit()` behind it, or swap with an empty one",
    "free-emptied": "free the array once it is empty, or `realloc` it to what is needed next",
    "drop-expired": "drop each `Weak` whose `strong_count()` is 0: it keeps the memory of a value that is gone",
    "drop-expired-or-apart": "drop the `weak_ptr`s that have `expired()`; after `make_shared` they keep the memory of "
    "the whole object, after `shared_ptr<T>(new T)` only that of the control block",
    "share-texts": "keep one copy of each text and share it: an interning table, `shared_ptr<const string>`, `Rc<str>`",
    "share-copies": "find out why it is made again (added twice?); keep one copy of each and share it",
    "captured": "capture a pointer or a `shared_ptr` to what all functions use, not a copy of it",
    "tiny-containers": "make the container when its first element comes (a `unique_ptr` to it, an `optional`), or keep "
    "few elements in a vector",
    "node-overhead": "keep small elements beside each other: a vector, a deque or a sorted vector in place of nodes",
    "unlisted": "when an object is taken out of the one list, take it out of the other as well, and free it",
    "sweep-table": "take out of the table from time to time what nobody else has (`use_count() == 1`, "
    "`retain(|text| Rc::strong_count(text) > 1)`), or keep weak pointers in it",
    "cycle": "`gc.collect()` frees them: see whether the collector is off (`gc.disable()`); clear one pointer of the "
    "cycle once they are done with, or make it a `weakref`",
    "unbounded": "give the cache a bound (`maxsize`), and no argument that differs in each call",
    "rounding": "allocate many at once (an array, a slab, a pool), or make the object fit malloc's sizes: 24, 40, 56, "
    "72, 88 bytes and so on",
}
"""By id."""


def advice_text(said: Statement) -> str:
    return ADVICE[said.id]


WHY = {
    "unused-room": "unused room",
    "emptied": "emptied",
    "destroyed-kept": "destroyed, kept",
    "duplicates": "duplicates",
    "captured": "captured copies",
    "tiny-containers": "next to empty",
    "node-overhead": "nodes",
    "rounding": "rounding",
    "unlisted": "unlisted",
    "unbounded": "no bound",
    "cycle": "cycle",
}
"""The reasons as the screen has them."""


def sentence(style: Style, row: WasteRow, live: int) -> str:
    """ "store->series[].second.points: 8,000 vectors use 3.2 MiB of 175.8 MiB", in the program's own words."""
    total = "" if row.number == row.total else f" of {row.total:,}"
    number = f"{row.number:,}{total} {_what(row)}"
    guess = "" if row.certain else GUESS
    in_memory = "" if row.resident is None else f", {style.size(row.resident)} of it in memory"
    part = f"{share(row.unused, live)} of the live bytes{in_memory}"
    rest = f"{style.size(row.unused)}, {part}{guess}"
    if row.reason == "tiny-containers":
        return f"{row.path}: {number} with next to no elements cost {rest}"
    if row.reason == "node-overhead":
        sizes = f"{row.room // row.number:,} bytes for an element of {row.used // row.number:,} bytes"
        return f"{row.path}: each of the {row.number:,} nodes takes {sizes}: {rest}"
    if row.elsewhere is not None:
        other, member, listed, unlisted = row.elsewhere
        return (
            f"{row.path}: {row.number:,} of its {row.total:,} objects of type {row.type} are not in {other}: their "
            f"{member} is {unlisted}, that of the others {listed}; these {row.number:,} keep {rest}"
        )
    if row.reason == "unlisted":
        return f"{row.path}: nobody but the table has {row.number:,} of {row.total:,} {row.type}; they keep {rest}"
    if row.mostly is not None:
        return f"{row.path} {_of_python(row)}{style.size(row.room)}, mostly in {row.mostly.type} objects, {part}"
    if row.reason == "rounding":
        sizes = f"{row.used // row.number:,} bytes and takes a block of {row.room // row.number:,}"
        return f"{row.path}: each of the {row.number:,} objects has {sizes}: {rest}"
    if row.reason in ("duplicates", "captured"):
        blocks = count(row.number + row.elements, "block")
        if row.elements == 1:
            return f"{row.path}: {blocks} have the same contents; one copy would save {rest}"
        return f"{row.path}: {blocks} have {row.elements:,} different values; one copy of each would save {rest}"
    if row.reason == "destroyed-kept":
        weak = count(row.elements, "weak pointer")
        keeps = "keeps" if row.elements == 1 else "keep"
        return f"{row.path}: {number} are destroyed, and {weak} {keeps} their {style.size(row.room)}, {part}{guess}"
    if row.reason == "emptied":
        keeps = "keeps" if row.number == 1 else "keep"
        return f"{row.path}: {number} without elements {keeps} {style.size(row.room)}, {part}{guess}"
    uses = "uses" if row.number == 1 else "use"
    return f"{row.path}: {number} {uses} {style.size(row.used)} of {style.size(row.room)}; not used: {rest}"


KINDS = (
    ("std::vector<", "vector"),
    ("alloc::vec::Vec<", "vector"),
    ("std::__cxx11::basic_string<", "string"),
    ("std::basic_string<", "string"),
    ("alloc::string::String", "string"),
    ("std::deque<", "deque"),
    ("alloc::collections::vec_deque::VecDeque<", "queue"),
    ("std::unordered_", "hash table"),
    ("std::collections::hash::", "hash table"),
    ("hashbrown::", "hash table"),
)


def _of_python(row: WasteRow) -> str:
    """What stands in front of the bytes."""
    if row.reason == "cycle":
        return f"makes cycles: nothing else leads to {count(row.number, row.type + ' object')}, which keep "
    entries = count(row.elements, "entry", "entries")
    return f"(lru_cache without bound): {entries}, {count(row.hits, 'hit')}, holds "


def _what(row: WasteRow) -> str:
    if row.reason == "destroyed-kept":
        return "object" if row.number == row.total == 1 else "objects"
    one = next((word for start, word in KINDS if row.type.startswith(start)), "container")
    return one if row.number == row.total == 1 else f"{one}s"
