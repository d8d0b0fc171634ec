"""Finds what grew over many snapshots, since when, how steadily, and when it reaches a limit."""

from __future__ import annotations

from typing import AbstractSet, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.heap_model import Statement
from .arena_usage import total
from .compare_snapshots import CONTAINER, JsonObject, compare, figures_of, held_by_containers, owner_name
from .resident_parts import FREE, LIVE

NOTABLE = 128 << 10
"""Smaller changes are normal in steady operation."""
SHARE = 1000
"""Likewise, as a fraction of what is resident."""
NOT_TOLD = ("snapshot-is-later", "growth-unknown")
"""The conclusion if two snapshots do not show whether it grew."""
DOUBTFUL, TOLD_IN = 8, 3600
"""Less than that by so many times may be the begin of a growth, if it would bring as much in so many seconds."""


def growth(before: JsonObject, after: JsonObject) -> Statement:
    """Compares two snapshots; by resident memory if both have it, else by what malloc has handed out."""
    diff = compare(before, after)
    if diff.one_process is False:
        return Statement("another-process")
    changes = {each.name: each.change for each in diff.parts}
    reports = [each.get("report") or {} for each in (before, after)]
    told = all(each.get("parts") for each in reports) and len({each.get("measure") for each in reports}) == 1
    live = _sum([changes.get(name, 0) for name in LIVE]) if told else _in_use(before, after)
    free = _sum([changes.get(name, 0) for name in FREE]) if told else None
    rss = diff.rss.change
    elsewhere = None if rss is None or live is None or free is None else rss - live - free
    figures: dict[str, Optional[float]] = {
        "seconds": diff.seconds,
        "rss_change_bytes": rss,
        "live_change_bytes": live,
        "free_change_bytes": free,
        "elsewhere_change_bytes": elsewhere,
        "live_per_hour_bytes": diff.per_hour(live),
        "rss_per_hour_bytes": diff.per_hour(rss),
    }
    if diff.exchanged:
        return Statement("snapshot-is-later", figures)
    filled, names = diff.filled, {}
    if filled is not None:
        figures["container_change_elements"] = filled.change
        names["container"] = filled.name
    changed = {"live": live, "free": free, "elsewhere": elsewhere}
    return Statement(_kind(diff.rss.after, rss, changed, diff.seconds), figures, names)


def what_they_show(grown: Optional[Statement]) -> Optional[str]:
    """Returns the id of what two snapshots show; None if they show nothing. Cores do not tell how far apart they
    are."""
    if grown is None or grown.figures.get("seconds") is None or grown.id in NOT_TOLD:
        return None
    return grown.id


def _kind(
    now: Optional[int], rss: Optional[int], changes: Mapping[str, Optional[int]], seconds: Optional[float]
) -> str:
    """Returns what grew most, if anything did."""
    least = max(NOTABLE, (now or 0) // SHARE)
    if changes["live"] is None:
        return "growth-unknown"
    what, growth = max(changes.items(), key=lambda item: item[1] or 0)
    if growth is not None and growth >= least:
        return f"{what}-grew"
    fell = rss if rss is not None else changes["live"]
    if fell <= -least:
        return "fell"
    # other memory also grows by being looked at
    is_doubtful = changes["live"] * DOUBTFUL >= least
    is_fast = seconds is not None and changes["live"] * TOLD_IN >= least * seconds
    return "grew-too-little" if is_doubtful and is_fast else "held-still"


def is_outside_malloc(changes: Mapping[str, Optional[int]]) -> bool:
    """Tells whether most of the growth in resident memory is neither malloc's nor a file's."""
    other = changes.get("other") or 0
    return other >= NOTABLE and other >= max(change or 0 for change in changes.values())


def _sum(changes: list[Optional[int]]) -> Optional[int]:
    known = [change for change in changes if change is not None]
    return sum(known) if len(known) == len(changes) else None


def _in_use(before: JsonObject, after: JsonObject) -> Optional[int]:
    """Returns what is in use by malloc's own account: what the arenas hold that is not free, and mmapped blocks."""
    sums = []
    for document in (before, after):
        arenas = document.get("arenas") or {}
        used = (arenas.get("totals") or {}).get("used_bytes")
        mapped = (arenas.get("mmapped") or {}).get("bytes")
        if used is None or mapped is None:
            return None
        sums.append(used + mapped)
    return int(sums[1] - sums[0])


STEADILY, AT_ONCE, UNEVENLY, ENDED, STILL = "steadily", "at-once", "unevenly", "ended", "held-still"
COURSES = (STEADILY, AT_ONCE, UNEVENLY, ENDED, STILL)
FEW = 3
"""The fewest moments that make a trend."""
FEW_ELEMENTS = 16
"""Smaller changes in a container's elements are normal in steady operation."""
MAX_POINTS = 64
"""If there are more moments, rates are computed from so many, evenly spread: each is paired with each."""
ONE_STEP = 0.7
"""The share of a growth that one step must have brought for the growth to count as sudden."""
ONE_WAY = 0.7
"""The share of all ups and downs that must remain as net change for a growth to be steady."""
STRETCHES = 12
"""The number of stretches into which a growth is split, to see whether it goes one way."""
FLAT, LITTLE = 5, 0.1
"""A growth has ended if the last fifth of the time brought at most a tenth of it."""
NEARLY = 1.05
"""An earlier beginning is taken if it fits the figures as well as the best one, within this factor."""
LIKELY = (0.2, 0.8)
"""The percentiles of rates that stand for slow and fast."""


class ValueAt(NamedTuple):
    seconds: float
    """Since 1970."""
    value: int


class Series(NamedTuple):
    """One figure over time."""

    by: str
    """The kind of figure: a key of FIGURES."""
    name: str
    moments: Sequence[ValueAt]
    how: str
    since: Optional[float] = None
    """When the growth, or fall, began; None if it held still."""
    until: Optional[float] = None
    """When it ended; None if it goes on."""
    per_hour: Optional[int] = None
    """The rate in that time; None if there is no meaningful rate."""
    slow: Optional[int] = None
    fast: Optional[int] = None
    """The rate by the slower and by the faster pairs of moments."""

    @property
    def change(self) -> int:
        return self.moments[-1].value - self.moments[0].value


class ProcessLife(NamedTuple):
    """All snapshots of a process, from first to last."""

    pid: Optional[int]
    name: str
    documents: Sequence[JsonObject]
    """In the order of time."""

    @property
    def first(self) -> float:
        return float(self.documents[0]["taken"])

    @property
    def last(self) -> float:
        return float(self.documents[-1]["taken"])


class LimitReached(NamedTuple):
    """When memory reaches a limit at the present rate; only if slow pairs of moments grow, too."""

    limit: int
    room: int
    """The bytes that are left."""
    soonest: float
    likely: float
    latest: float
    """In seconds after the last moment."""


class Trend(NamedTuple):
    """All results from a folder of snapshots about one process."""

    life: ProcessLife
    before: Sequence[ProcessLife]
    """Earlier runs of the same program."""
    others: Sequence[ProcessLife]
    series: Sequence[Series]
    comes: Optional[LimitReached]

    @property
    def rss(self) -> Optional[Series]:
        return next((each for each in self.series if each.by == "rss"), None)


def lives(documents: Iterable[JsonObject]) -> list[ProcessLife]:
    """Groups snapshots by process: its number and start time, or where its main arena lies. The process seen last comes
    last."""
    by_process: dict[tuple[object, ...], list[JsonObject]] = {}
    for document in documents:
        if document.get("taken") is not None:
            by_process.setdefault(_identity(document), []).append(document)
    lives = []
    for several in by_process.values():
        several.sort(key=lambda each: float(each["taken"]))
        target = several[-1].get("target") or {}
        lives.append(ProcessLife(target.get("pid"), str(target.get("name") or ""), several))
    return sorted(lives, key=lambda life: (life.last, life.first))


def _identity(document: JsonObject) -> tuple[object, ...]:
    target = document.get("target") or {}
    rows = (document.get("arenas") or {}).get("arenas") or ()
    main = next((row.get("address") for row in rows if row.get("main")), None)
    return target.get("pid"), target.get("started"), None if target.get("started") is not None else main


def succession(lives: Sequence[ProcessLife], life: ProcessLife) -> list[ProcessLife]:
    """Returns the earlier runs of a program: same name, each ended before the next began."""
    line = [life]
    for other in reversed(lives):
        if other is not life and other.name == life.name and other.last < line[0].first:
            line.insert(0, other)
    return line


def series_of(life: ProcessLife) -> list[Series]:
    """Returns every figure in its snapshots, the largest growth first. Containers are sorted by what they hold: those
    within one that grew have more elements, but hold less."""
    columns: dict[tuple[str, str], dict[float, Optional[int]]] = {}
    told: dict[str, set[float]] = {}
    """The moments with figures of a kind."""
    for document in life.documents:
        taken = float(document["taken"])
        for by, name, value in figures_of(document):
            told.setdefault(by, set()).add(taken)
            columns.setdefault((by, name), {})[taken] = value
    series = []
    for (by, name), values in columns.items():
        whole = _with_absence(values, told[by])
        if len(whole) > 1:
            series.append(judged(by, name, whole))
    held = _held_more([each for each in map(held_by_containers, life.documents) if each])
    return sorted(series, key=lambda each: -(held.get(each.name, 0) if each.by == CONTAINER else each.change))


def _held_more(documents: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    """Returns by container how many more bytes it holds than at first."""
    if not documents:
        return {}
    first, last = documents[0], documents[-1]
    return {name: last.get(name, 0) - first.get(name, 0) for name in {**first, **last}}


def _with_absence(values: Mapping[float, Optional[int]], told: AbstractSet[float]) -> list[ValueAt]:
    """Fills in zero for what a snapshot leaves out, if it has others of its kind. A figure that it names but does not
    know is skipped."""
    both = [(taken, values.get(taken, 0)) for taken in sorted(told)]
    return [ValueAt(taken, value) for taken, value in both if value is not None]


def judged(by: str, name: str, moments: Sequence[ValueAt]) -> Series:
    net = _level(moments[::-1]) - _level(moments)
    notable = FEW_ELEMENTS if by == CONTAINER else NOTABLE
    if abs(net) < max(notable, max(each.value for each in moments) // SHARE, 3 * _flutter(moments)):
        return Series(by, name, moments, STILL)
    step = _one_step(moments, net)
    if step is not None:
        return Series(by, name, moments, AT_ONCE, since=step.seconds, until=step.seconds)
    part = moments[_beginning(moments) :]
    end = len(part) - _beginning([ValueAt(-each.seconds, each.value) for each in reversed(part)])
    over = len(part) - end >= max(FEW, len(part) // FLAT) and _rest(part, end) <= LITTLE * abs(net)
    how = ENDED if over else STEADILY if _one_way(part) else UNEVENLY
    growing = part[:end] if over else part
    since, until = part[0].seconds, growing[-1].seconds if over else None
    if len(growing) < FEW:
        return Series(by, name, moments, how, since=since, until=until)
    rates = sorted(_rates(growing))
    slow, fast = (round(rates[int(share * (len(rates) - 1))] * 3600) for share in LIKELY)
    if net < 0:
        slow, fast = fast, slow
    rate = round(_median(rates) * 3600)
    return Series(by, name, moments, how, since=since, until=until, per_hour=rate, slow=slow, fast=fast)


def _median(values: Iterable[float]) -> float:
    """Replaces the statistics module, which imports decimals and fractions: too slow for a debugger's start."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _level(moments: Sequence[ValueAt]) -> float:
    """Returns the level at the beginning: a median, so that one stray value does not count."""
    return _median(each.value for each in moments[: max(1, len(moments) // 10)])


def _flutter(moments: Sequence[ValueAt]) -> float:
    """Returns the noise between moments: how much of each step the next one undoes, on average."""
    steps = [after.value - before.value for before, after in zip(moments, moments[1:])]
    undone = [min(abs(one), abs(other)) if (one < 0) != (other < 0) else 0 for one, other in zip(steps, steps[1:])]
    return sum(undone) / len(undone) if undone else 0


def _one_step(moments: Sequence[ValueAt], net: float) -> Optional[ValueAt]:
    """Returns the moment that brought nearly all of the change, if it stayed."""
    if len(moments) <= FEW:
        return None
    pairs = zip(moments, moments[1:])
    largest = max(pairs, key=lambda pair: (pair[1].value - pair[0].value) * (1 if net > 0 else -1))
    step = largest[1].value - largest[0].value
    return largest[1] if ONE_STEP <= step / net <= 1 / ONE_STEP else None


def _rest(part: Sequence[ValueAt], end: int) -> float:
    return abs(_level(part[::-1]) - _level(part[end:]))


def _one_way(part: Sequence[ValueAt]) -> bool:
    """Compares medians of a few stretches of time, so that noise within them does not count."""
    size = max(1, -(-len(part) // STRETCHES))
    levels = [_median(each.value for each in part[start : start + size]) for start in range(0, len(part), size)]
    steps = [after - before for before, after in zip(levels, levels[1:])]
    return len(steps) >= FEW - 1 and abs(sum(steps)) >= ONE_WAY * sum(map(abs, steps))


def _rates(part: Sequence[ValueAt]) -> Iterator[float]:
    """Yields bytes per second between each two moments: the median is a slope that a few strays do not move."""
    every = max(1, -(-len(part) // MAX_POINTS))
    # the last one is the one that counts most
    points = part[::-1][::every][::-1]
    for index, before in enumerate(points):
        for after in points[index + 1 :]:
            if after.seconds > before.seconds:
                yield (after.value - before.value) / (after.seconds - before.seconds)


def _beginning(moments: Sequence[ValueAt]) -> int:
    """Returns where a level ends and a slope begins: the split at which a constant before it, and a line from there on,
    fit best by least squares. Sums over what lies before a split give those over the rest."""
    base, start = moments[0].value, moments[0].seconds
    times = [each.seconds - start for each in moments]
    values = [float(each.value - base) for each in moments]
    n = len(moments)
    all_v, all_vv = sum(values), sum(each * each for each in values)
    all_t, all_tt = sum(times), sum(each * each for each in times)
    all_tv = sum(t * v for t, v in zip(times, values))
    v = vv = t = tt = tv = 0.0
    errors: list[float] = []
    for count, (time, value) in enumerate(zip(times[: max(1, n - FEW + 1)], values), 1):
        v, vv, t, tt, tv = v + value, vv + value * value, t + time, tt + time * time, tv + time * value
        level = v / count
        flat = vv - v * level
        rest = n - count
        later_v, later_vv, later_t = all_v - v, all_vv - vv, all_t - t
        later_tt, later_tv = all_tt - tt, all_tv - tv
        # distances from (time, level)
        squares_t = later_tt - 2 * time * later_t + rest * time * time
        squares_v = later_vv - 2 * level * later_v + rest * level * level
        both = later_tv - time * later_v - level * later_t + rest * time * level
        errors.append(flat + max(0.0, squares_v - (both * both / squares_t if squares_t else 0.0)))
    least = min(errors)
    slack = 1e-9 * all_vv
    return next(index for index, error in enumerate(errors) if error <= least * NEARLY + slack)


def reached(rss: Series, limit: int, used: Optional[int]) -> Optional[LimitReached]:
    """Predicts when a limit is reached. `used`: what already counts against it, including other processes; None: not
    known, so RSS alone counts."""
    if rss.how not in (STEADILY, UNEVENLY) or rss.slow is None or min(rss.slow, rss.per_hour or 0) <= 0:
        return None
    room = max(0, limit - (rss.moments[-1].value if used is None else max(used, rss.moments[-1].value)))
    slow, likely, fast = (room * 3600 / rate for rate in (rss.slow, rss.per_hour or 1, rss.fast or 1))
    return LimitReached(limit, room, fast, likely, latest=slow)


BLOCKS_OF_A_SIZE, TYPE = "size", "type"
NAMED, WORTH_NAMING = 3, 0.1
"""At most so many types are named, each with at least this share of the growth."""
LONG_ENOUGH = 10
"""Shorter times give no meaningful rate per minute."""


class Grown(NamedTuple):
    """A type that has more than it had, and still grows."""

    type: str
    kind: Optional[str]
    """None if the snapshots do not tell."""
    certain: bool
    blocks: Optional[int]
    """The number of blocks that were added; None likewise."""
    bytes: int
    seconds: float
    """From the first of these moments to the last."""
    per_minute_bytes: Optional[int]
    """None if the time is too short."""
    steadily: bool
    """Whether it grew without going down in between, as work in progress does."""
    owner: Optional[str]
    """The owner of at least half of the growth, named as owners are in snapshots; None if not known."""
    owner_kind: Optional[str]


class _SnapshotRows(NamedTuple):
    """The rows of one type in one snapshot: two modules may each have a type of that name."""

    rows: Sequence[JsonObject] = ()

    @property
    def bytes(self) -> int:
        return sum(int(row["bytes"]) for row in self.rows)

    @property
    def blocks(self) -> Optional[int]:
        return total(row.get("blocks") for row in self.rows)

    @property
    def largest(self) -> JsonObject:
        return max(self.rows, key=lambda row: int(row["bytes"]))


def grown_types(documents: Sequence[JsonObject]) -> Optional[list[Grown]]:
    """Returns the types that grew in snapshots of one process, in order of time. Those that grow steadily come first,
    then the largest growth. None if fewer than two snapshots have types."""
    both = [(float(each["taken"]), _rows_of(each)) for each in documents]
    told = [(taken, _by_type(rows)) for taken, rows in both if rows is not None]
    if len(told) < 2:
        return None
    last = told[-1][1]
    found = (_grown(name, [(taken, types.get(name, _SnapshotRows())) for taken, types in told]) for name in last)
    return sorted((each for each in found if each is not None), key=lambda each: (not each.steadily, -each.bytes))


def worth_naming(grown: Sequence[Grown]) -> Sequence[Grown]:
    """Returns the first type, and those that grow like it and matter beside it."""
    least = WORTH_NAMING * sum(each.bytes for each in grown)
    alike = [each for each in grown[1:] if each.steadily == grown[0].steadily and each.bytes >= least]
    return [*grown[:1], *alike][:NAMED]


def without_types(documents: Sequence[JsonObject]) -> int:
    """Counts the snapshots without types, if others have them: in these no type counts as zero."""
    lacking = sum(_rows_of(each) is None for each in documents)
    return lacking if lacking < len(documents) else 0


def _rows_of(document: JsonObject) -> Optional[Iterable[JsonObject]]:
    rows: Optional[Iterable[JsonObject]] = (document.get("types") or {}).get("types")
    return rows


def _by_type(rows: Iterable[JsonObject]) -> dict[str, _SnapshotRows]:
    types: dict[str, list[JsonObject]] = {}
    for row in rows:
        types.setdefault(str(row["type"]), []).append(row)
    return {name: _SnapshotRows(several) for name, several in types.items()}


def _grown(name: str, moments: Sequence[tuple[float, _SnapshotRows]]) -> Optional[Grown]:
    series = judged(TYPE, name, [ValueAt(taken, rows.bytes) for taken, rows in moments])
    if series.since is None or series.until is not None or series.change <= 0:
        return None
    (start, first), (end, last) = moments[0], moments[-1]
    seconds = end - start
    rate = None
    if seconds >= LONG_ENOUGH:
        rate = round(series.change * 60 / seconds if series.per_hour is None else series.per_hour / 60)
    owner, blocks = _owner(first, last, series.change), (first.blocks, last.blocks)
    return Grown(
        type=name,
        kind=last.largest.get("kind"),
        certain=all(bool(row.get("certain")) for row in last.rows),
        blocks=None if blocks[0] is None or blocks[1] is None else blocks[1] - blocks[0],
        bytes=series.change,
        seconds=seconds,
        per_minute_bytes=rate,
        steadily=series.how == STEADILY,
        owner=None if owner is None else owner_name(owner),
        owner_kind=None if owner is None else str(owner["kind"]),
    )


def _owner(first: _SnapshotRows, last: _SnapshotRows, change: int) -> Optional[JsonObject]:
    """Returns the owner of the growth. A row names who holds most of a type. What that owner held before is known if
    the earlier row names it, too, or if there were no such blocks."""
    after: Optional[JsonObject] = last.largest.get("held_by")
    if after is None:
        return None
    before = list(_held(first, owner_name(after)))
    if first.rows and not before:
        return None
    more = sum(_held(last, owner_name(after))) - sum(before)
    return after if 2 * more >= change else None


def _held(rows: _SnapshotRows, owner: str) -> Iterator[int]:
    for row in rows.rows:
        held_by = row.get("held_by")
        if held_by and owner_name(held_by) == owner:
            yield held_by.get("bytes") or 0
