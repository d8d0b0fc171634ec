"""Compares two snapshots: by owner, type, part of RSS, arena, bin, size of block."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.heap_model import Allocator
from .resident_parts import OF_ARENAS

JsonObject = Mapping[str, Any]
"""A snapshot's JSON, or a row of it. Its form was checked when the file was read."""
NAMELESS = "a variable"
CONTAINER = "container"
"""The kind of figure that counts elements, not bytes."""
IN_PASSING = ("stack", "register")
"""Kinds of owners that hold the work in progress: what they hold comes and goes with every request."""


def allocators_of(document: JsonObject) -> list[Allocator]:
    """Returns a snapshot's allocators; older snapshots have none."""
    rows = (document.get("arenas") or {}).get("allocators") or ()
    return [
        Allocator(row["name"], row["how"], row["replaces_malloc"], row["instead"], shadowed_by=row["shadowed_by"])
        for row in rows
    ]


def arena_name(row: JsonObject) -> str:
    """Names an arena by its address, which stays for the process's life: its number moves with each new arena."""
    return "main" if row.get("main") else str(row["address"])


def bin_name(row: JsonObject) -> str:
    """Names a bin, the same in all arenas: a list that grows does so wherever threads go."""
    if row["kind"] == "unsorted":
        return "unsorted"
    least, largest = row["min_bytes"], row.get("max_bytes")
    return f"{row['kind']} {least}" + (f"-{largest}" if largest and largest != least else "")


def size_name(row: JsonObject) -> str:
    largest = row.get("max_bytes")
    return f"{row['min_bytes']}-{largest}" if largest is not None else str(row["min_bytes"])


def owner_name(row: JsonObject) -> str:
    """Names an owner. What it holds by stale words has a name of its own; older snapshots do not tell."""
    return f"{_owner_name(row)} (stale words)" if row.get("stale") else _owner_name(row)


def _owner_name(row: JsonObject) -> str:
    """Names an owner without its thread: threads come and go, and what they hold in one way is one figure."""
    kind, name = str(row.get("kind")), row.get("name")
    if kind in IN_PASSING:
        return str(name) if kind == "stack" and name else f"{kind}s of threads"
    if kind == "tls":
        return f"{name or 'variables'} of threads"
    if kind in ("shared", "unreached"):
        # older snapshots have rows for shared owners
        return f"several together: {name or 'others'}" if kind == "shared" else "nobody"
    if kind == "runtime":
        return f"heap of {name}"
    return f"mapping {name}" if kind == "mapping" else name or NAMELESS


OF_FILES = ("files", "shared", "kernel")
"""Parts of RSS that a core does not show."""
UNKNOWN: JsonObject = {}


class FigureChange(NamedTuple):
    """One figure before and after; None where it was not known."""

    name: str
    before: Optional[int]
    after: Optional[int]
    kind: Optional[str] = None
    """The owner's kind."""
    mostly: Optional[str] = None
    """For an owner: the type that changed most of what it holds, if known."""

    @property
    def change(self) -> Optional[int]:
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def stays(self) -> bool:
        """Whether an owner has more than it had, and keeps it when no request is at work."""
        return (self.change or 0) > 0 and self.kind not in IN_PASSING


class Figure(NamedTuple):
    by: str
    """The kind of figure: one of FIGURES."""
    name: str
    value: Optional[int]


class Diff(NamedTuple):
    """The changes between two moments, the earlier one first."""

    seconds: Optional[float]
    """None if one of the two has no time."""
    exchanged: bool
    """The two were given in the wrong order."""
    one_process: Optional[bool]
    """Whether both are of one process; None if they do not tell."""
    rss: FigureChange
    parts: list[FigureChange]
    arenas: list[FigureChange]
    """Bytes that each arena took from the kernel."""
    used: list[FigureChange]
    """Bytes in use in each arena."""
    bins: list[FigureChange]
    sizes: list[FigureChange]
    """Bytes in use by size of block; empty where either snapshot has no sizes."""
    types: list[FigureChange]
    """The same by type."""
    containers: list[FigureChange]
    """Elements by the path to the container; the largest change in bytes held comes first."""
    owners: Optional[list[FigureChange]]
    """Bytes by owner: what grew and is kept first, then what is held in passing, then what shrank. None if either
    snapshot has none."""

    @property
    def filled(self) -> Optional[FigureChange]:
        """The container that has more elements, and holds most more."""
        grown = (each for each in self.containers if (each.change or 0) > 0)
        return next(grown, None) if self.one_process is not False else None

    def per_hour(self, change: Optional[int]) -> Optional[float]:
        """The rate per hour; None if the two are of different processes."""
        if change is None or not self.seconds or self.one_process is False:
            return None
        return change * 3600 / self.seconds


def compare(before: JsonObject, after: JsonObject) -> Diff:
    first, second = before.get("taken"), after.get("taken")
    seconds = None if first is None or second is None else float(second - first)
    if seconds is not None and seconds < 0:
        return compare(after, before)._replace(exchanged=True)
    report = before.get("report") or {}, after.get("report") or {}
    measures = [each.get("measure") == "address-space" for each in report]
    # pages in memory and mapped space cannot be compared
    alike = measures[0] == measures[1]
    both = {by: [kind.rows_of(document) for document in (before, after)] for by, kind in KINDS.items()}
    changes = {by: _changes(*both[by], key=kind.key) for by, kind in KINDS.items()}
    known = {by: changes[by] if None not in both[by] else [] for by in ("size", "type", CONTAINER)}
    return Diff(
        seconds=seconds,
        exchanged=False,
        one_process=_one_process(before, after),
        rss=FigureChange("rss", report[0].get("rss_bytes"), report[1].get("rss_bytes")),
        parts=changes["part"] if alike else [],
        arenas=changes["arena"],
        used=changes["used"],
        bins=changes["bin"],
        sizes=known["size"],
        types=known["type"],
        containers=_by_what_they_hold(known[CONTAINER], _changes(*both[CONTAINER], key="held_bytes")),
        owners=_owners(before, after, *both["owner"]),
    )


Rows = Mapping[str, JsonObject]
"""Rows by name; None in place of all of them: not known."""


def figures_of(document: JsonObject) -> Iterator[Figure]:
    """Every figure of one snapshot that `diff` compares."""
    yield Figure("rss", "rss", (document.get("report") or {}).get("rss_bytes"))
    for by, kind in KINDS.items():
        for name, row in (kind.rows_of(document) or {}).items():
            yield Figure(by, name, row.get(kind.key))


def _one_process(before: JsonObject, after: JsonObject) -> Optional[bool]:
    """Compares where main_arena lies, which differs from run to run, and the process's number."""
    places = [
        next((str(row["address"]) for row in (each.get("arenas") or {}).get("arenas") or () if row.get("main")), None)
        for each in (before, after)
    ]
    numbers = [(each.get("target") or {}).get("pid") for each in (before, after)]
    pairs = [pair for pair in (places, numbers) if None not in pair]
    return all(one == other for one, other in pairs) if pairs else None


def _parts(document: JsonObject) -> Optional[Rows]:
    """Returns the parts of memory. A core does not know some, such as resident pages of files; an unreadable arena
    leaves what is in use and what is free unknown."""
    report = document.get("report") or {}
    rows = report.get("parts")
    if not rows:
        return None
    parts: dict[str, JsonObject] = {str(row["part"]): row for row in rows}
    if "unread" in parts:
        parts.update(dict.fromkeys(OF_ARENAS, UNKNOWN))
    if report.get("rss_bytes") is None:
        return {**parts, **dict.fromkeys(OF_FILES, UNKNOWN)}
    return parts


def _by(rows: Optional[Iterable[JsonObject]], name: Callable[[JsonObject], str]) -> Optional[Rows]:
    return None if rows is None else {name(row): row for row in rows}


def _arenas(document: JsonObject) -> Optional[Rows]:
    return _by((document.get("arenas") or {}).get("arenas"), arena_name)


def _bins(document: JsonObject) -> Optional[Rows]:
    """Sums the bins of one kind and index over all arenas."""
    return _sums(document, "bins", bin_name, ["bytes"])


def _sums(document: JsonObject, part: str, name: Callable[[JsonObject], str], keys: Sequence[str]) -> Optional[Rows]:
    """Sums rows of one name; None if the document lacks them."""
    rows = (document.get(part) or {}).get(part)
    if rows is None:
        return None
    sums: dict[str, dict[str, int]] = {}
    for row in rows:
        kept = sums.setdefault(name(row), dict.fromkeys(keys, 0))
        for key in keys:
            kept[key] += row.get(key) or 0
    return sums


def _sizes(document: JsonObject) -> Optional[Rows]:
    return _by((document.get("chunks") or {}).get("sizes"), size_name)


def _by_what_they_hold(changes: Sequence[FigureChange], held: Sequence[FigureChange]) -> list[FigureChange]:
    """Sorts by the change in bytes held: containers within one that grew have more elements, but hold less."""
    most = {each.name: abs(each.change or 0) for each in held}
    return sorted(changes, key=lambda each: -most.get(each.name, 0))


def _sums_of_containers(document: JsonObject) -> Optional[Rows]:
    """Sums containers of one path, which may lead to several types."""
    return _sums(document, "containers", lambda row: str(row["path"]), ["elements", "held_bytes"])


def held_by_containers(document: JsonObject) -> Mapping[str, int]:
    """Returns bytes by the path to each container; empty if the document has no containers."""
    return {name: row["held_bytes"] for name, row in (_sums_of_containers(document) or {}).items()}


def _owners(before: JsonObject, after: JsonObject, *both: Optional[Rows]) -> Optional[list[FigureChange]]:
    """Sorts owners: first those that grew and keep what they have."""
    if both[0] is None or both[1] is None:
        return None
    mostly = _mostly(before, after)
    rows = {**both[0], **both[1]}
    changes = [
        each._replace(kind=rows[each.name]["kind"], mostly=mostly.get(each.name, rows[each.name]["type"]))
        for each in _changes(*both, key="held_bytes")
    ]
    return sorted(changes, key=lambda each: (not each.stays, (each.change or 0) < 0, -abs(each.change or 0)))


def _mostly(before: JsonObject, after: JsonObject) -> Mapping[str, str]:
    """Returns, by owner, the type whose bytes changed most among those that it holds most of."""
    both = [(document.get("types") or {}).get("types") or () for document in (before, after)]
    sums: dict[str, dict[str, int]] = {}
    for sign, rows in zip((-1, 1), both):
        for row in rows:
            if row.get("held_by"):
                types = sums.setdefault(owner_name(row["held_by"]), {})
                types[row["type"]] = types.get(row["type"], 0) + sign * (row["held_by"].get("bytes") or 0)
    return {owner: max(types, key=lambda name: abs(types[name])) for owner, types in sums.items()}


def _sums_of_owners(document: JsonObject) -> Optional[Rows]:
    """Sums what all threads hold in one way."""
    rows = (document.get("owners") or {}).get("owners")
    if rows is None:
        return None
    first: dict[str, JsonObject] = {}
    sums: dict[str, int] = {}
    for row in rows:
        name = owner_name(row)
        first.setdefault(name, {"kind": row["kind"], "type": row.get("type")})
        # older snapshots have only what each holds alone
        sums[name] = sums.get(name, 0) + row.get("held_bytes", row["retained_bytes"])
    return {name: {**row, "held_bytes": sums[name]} for name, row in first.items()}


class _Kind(NamedTuple):
    """One of the tables of figures of a snapshot."""

    rows_of: Callable[[JsonObject], Optional[Rows]]
    key: str
    """The column of a row that is compared."""


KINDS: Mapping[str, _Kind] = {
    "part": _Kind(_parts, "bytes"),
    "arena": _Kind(_arenas, "system_bytes"),
    "used": _Kind(_arenas, "used_bytes"),
    "bin": _Kind(_bins, "bytes"),
    "size": _Kind(_sizes, "used_bytes"),
    # types of one name may be of two modules
    "type": _Kind(lambda document: _sums(document, "types", lambda row: str(row["type"]), ["bytes"]), "bytes"),
    CONTAINER: _Kind(_sums_of_containers, "elements"),
    "owner": _Kind(_sums_of_owners, "held_bytes"),
}


def _changes(before: Optional[Rows], after: Optional[Rows], *, key: str) -> list[FigureChange]:
    """Returns the changes, the largest first, without rows that are the same in both."""
    changes = []
    for name in dict.fromkeys([*(before or ()), *(after or ())]):
        old, new = _value(before, name, key), _value(after, name, key)
        if old != new and (old or new):
            changes.append(FigureChange(name, old, new))
    return sorted(changes, key=lambda change: -abs(change.change or 0))


def _value(rows: Optional[Rows], name: str, key: str) -> Optional[int]:
    """Returns a figure. A row that the document leaves out was zero, unless it has none of them."""
    if rows is None:
        return None
    return rows[name].get(key) if name in rows else 0


FIGURES = ("rss", *KINDS)
