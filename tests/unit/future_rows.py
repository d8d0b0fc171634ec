"""Releases that do not exist yet: a known row with members put in, taken out or moved, laid out as a compiler would.

    row = future("2.44-64", state=[insert("flags", "spare")])
    image = everything(row)
    fill(image, "spare", lambda address: 7)

Nothing here knows arenascope's own layouts; the names of new members mean nothing to it either.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Callable, Mapping, Sequence, Union

from glibc_rows import BY_NAME, ROWS, Row, up
from glibc_tables import INTS
from heapbuilder import HeapImage

Member = tuple[str, int, int]
"""Name, bytes, alignment."""
Change = Callable[[list[Member], int], list[Member]]
"""Of the members and the size of a word."""
NEWEST = max(ROWS, key=lambda row: row.number).version
"""The last release that is known."""
UNKNOWN = f"2.{int(NEWEST.partition('.')[2]) + 4}"


@dataclass(frozen=True)
class FutureRow(Row):
    """A Row whose thread cache may have more bins of single sizes."""

    small_bins: int = 64

    def tcache_index(self, size: int) -> int:
        index = (size - self.minsize) // self.alignment
        if index < self.small_bins:
            return index
        return super().tcache_index(size)


def members(row: Row, struct: Mapping[str, int]) -> list[Member]:
    """A struct's members in their order, with what each takes."""
    arrays = {"fastbinsY": row.nfastbins * row.word, "bins": 254 * row.word, "binmap": 16}
    order = sorted((name for name in struct if name != "sizeof"), key=lambda name: struct[name])
    found = []
    for name in order:
        size = arrays.get(name, 4 if name in INTS else row.word)
        found.append((name, size, 4 if name in INTS or name == "binmap" else row.word))
    return found


def lay(order: Sequence[Member], word: int, pad_to: int = 0) -> dict[str, int]:
    """Offsets and sizeof, as C lays the members out; heap_info's pad makes its first chunk's user pointer aligned."""
    offsets, end = {}, 0
    for name, size, alignment in order:
        offsets[name] = up(end, alignment)
        end = offsets[name] + size
    end = up(end, word)
    if pad_to:
        end = up(end + 2 * word, pad_to) - 2 * word
    return {**offsets, "sizeof": end}


# changes


def insert(after: str, name: str, kind: str = "word") -> Change:
    """A new member after another ("" for the first place): a "word" or an "int"."""

    def change(order: list[Member], word: int) -> list[Member]:
        place = [each[0] for each in order].index(after) + 1 if after else 0
        width = word if kind == "word" else 4
        return [*order[:place], (name, width, width), *order[place:]]

    return change


def remove(name: str) -> Change:
    return lambda order, word: [each for each in order if each[0] != name]


def move(name: str, after: str) -> Change:
    """A member to another place."""

    def change(order: list[Member], word: int) -> list[Member]:
        moved = next(each for each in order if each[0] == name)
        rest = [each for each in order if each[0] != name]
        place = [each[0] for each in rest].index(after) + 1 if after else 0
        return [*rest[:place], moved, *rest[place:]]

    return change


def changed(row: Row, struct: Mapping[str, int], changes: Sequence[Change], pad_to: int = 0) -> dict[str, int]:
    order = members(row, struct)
    for change in changes:
        order = change(order, row.word)
    return lay(order, row.word, pad_to)


# thread caches


def cache(row: Row, bins: int, width: int, entries_first: bool = False) -> dict[str, int]:
    """tcache_perthread_struct with this many bins and bytes of a count."""
    entries = 0 if entries_first else up(bins * width, row.word)
    counts = bins * row.word if entries_first else 0
    size = up(bins * (width + row.word), row.word) if entries_first else entries + bins * row.word
    return {
        "slots": bins,
        "count_size": width,
        "counts": counts,
        "entries": entries,
        "sizeof": size,
        "chunk": row.request2size(size),
    }


def future(
    base: Union[str, Row],
    state: Sequence[Change] = (),
    heap: Sequence[Change] = (),
    par: Sequence[Change] = (),
    version: str = UNKNOWN,
    small_bins: int = 64,
    **tcache: int,
) -> FutureRow:
    """A release by this version string whose structures are those of `base`, changed.

    tcache: bins=, width= and entries_first= give another form of thread cache.
    """
    row = BY_NAME[base] if isinstance(base, str) else base
    values = {each.name: getattr(row, each.name) for each in fields(row)}
    made = FutureRow(**values, small_bins=small_bins)
    name = f"{version} from {row.name}"
    made = replace(
        made,
        name=name,
        version=version,
        state=changed(row, row.state, state),
        heap_info=changed(row, row.heap_info, heap, row.alignment),
        par=changed(row, row.par, par),
    )
    if tcache:
        form = {"bins": row.tcache["slots"], "width": row.tcache["count_size"], **tcache}
        made = replace(made, tcache=cache(made, **form))  # type: ignore[arg-type]
    return made


def fill(image: HeapImage, name: str, value: Callable[[int], int]) -> None:
    """Gives a new member of malloc_state a value in every arena, or one of mp_, by the structure's address."""
    row = image.row
    for truth in image.truth.arenas:
        if name in row.state:
            _put(image, truth.address + row.state[name], value(truth.address), _width(row, row.state, name))
        for heap in truth.heaps if truth.index and name in row.heap_info else ():
            _put(image, heap.address + row.heap_info[name], value(heap.address), row.word)
    if name in row.par:
        place = image.addresses["mp_"]
        _put(image, place + row.par[name], value(place), _width(row, row.par, name))


def _width(row: Row, struct: Mapping[str, int], name: str) -> int:
    """As far as the next member, a word at the most."""
    after = min(offset for key, offset in struct.items() if offset > struct[name])
    return min(after - struct[name], row.word)


def _put(image: HeapImage, address: int, value: int, width: int) -> None:
    image.poke(address, value, width)
