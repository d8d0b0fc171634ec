"""sqlite's page cache: a page, and behind it its header, which points back to both.

struct PgHdr1 of pcache1.c: the page, what is kept with it (behind this header), the page's number. sqlite puts the size
that was asked for in front of its blocks where it does not ask malloc for it.
"""

from __future__ import annotations

from ...base.heap_model import Kind
from .module_memory import LoadedModules
from .selection import USABLE, USER, Condition, Found, Selection, any_of

PAGE = Kind("sqlite page cache", "holder", how="its page header, which points back")
SIZES = tuple(512 << shift for shift in range(8))
FRONTS = (8, 0)
HEADER, MOST_BEHIND = 40, 512
"""Bytes of the header at least, and of all that lies behind the page at most."""


class Sqlite:
    """The page cache of one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self.runs = ground.has("sqlite3_libversion", "sqlite")

    def kinds(self, blocks: Selection) -> Found:
        yield blocks.where(any_of(_has_page(size, front) for size in SIZES for front in FRONTS)), PAGE


def _has_page(size: int, front: int) -> Condition:
    page, end = USER + front, USER + front + size
    is_large = USABLE.between(size + HEADER, size + MOST_BEHIND)
    is_page = (end.word() == page) & end.word(1).between(end + HEADER, USER + USABLE)
    return is_large & ((USER.word(0) + front).fits() & is_page if front else is_page)
