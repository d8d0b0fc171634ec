"""heap snapshot: the figures of this moment into a file; what `heap diff` compares."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Callable, Iterable, NamedTuple, Optional, Sequence

from ..analysis.compare_snapshots import JsonObject
from ..base.about import __version__
from ..base.errors import ArenascopeError, UsageError
from ..base.heap_model import Statement
from ..blocks.declared.once_per_image import containers_of
from ..present.json_documents.record import Document, Size
from ..present.json_documents.snapshot_file import read, write
from ..present.shared_text.lines_and_tables import count, duration
from ..present.shared_text.problem_sentences import sentences
from ..session.problems import problems_of
from ..session.session import Session, likely_chunks
from ..sources.live.process import ProcessImage
from .containers import row_record
from .framework.arguments import seconds
from .framework.command import Answer, CommandRequest, Context, always, argument, command
from .framework.find_command import parse_request
from .framework.live_copy import IN_A_SECOND, tells_types

START, EACH_BLOCK, EACH_BYTE = 0.3, 20e-6, 5e-9
"""Seconds, measured: to start, for each block, and for each byte that is copied."""
READING = 0.2
"""Seconds to read debug information of ordinary size."""
SMALL_BLOCK = 64
"""The assumed size of a block if it is not known."""
MOST = 10_000_000
"""Counting stops here: more blocks do not matter."""


LONG = 5.0
"""From so many seconds on the user is told beforehand."""
ROOM = 1.25
"""Advice allows so much more time than predicted."""


SECTIONS = {
    "report": ("rss_bytes", "swap_bytes", "parts", "measure"),
    "arenas": ("arenas", "mmapped", "totals", "allocators"),
    "bins": ("bins",),
    "threads": ("threads",),
    "params": ("params", "arenas"),
}
SIZES = {"chunks": ("summary", "sizes")}
OF_A_TYPE = ("type", "kind", "module", "certain", "blocks", "bytes", "resident_bytes", "holds_back_bytes")
OF_A_CONTAINER = ("path", "type", "form", "containers", "elements", "held_bytes")
OF_AN_OWNER = (
    *("kind", "name", "tid", "stale", "type", "held_bytes", "blocks"),
    *("retained_bytes", "retained_resident_bytes", "returns_bytes"),
)
"""The keys of each command's JSON that a snapshot keeps; of its rows these."""


class SnapshotDocument(Document, command="snapshot"):
    """The answer of snapshot."""

    file: str
    """Where it was written."""
    bytes: Size
    """The file's size."""


class LookCost(NamedTuple):
    """Seconds: in all, and of them those for which the process is held."""

    whole: float
    held: float


class LookLimit:
    """A limit in seconds for types and owners; 0: none. It is checked before a process is held."""

    def __init__(self, seconds: float, notice: Callable[[str], None]) -> None:
        self._seconds, self._notice = seconds, notice
        self._found: Optional[float] = None
        """The predicted seconds, once asked for."""

    def is_exceeded(self, session: Session) -> bool:
        if self._found is None:
            self._found = predict_cost(session).whole
            if self._found >= LONG and not self.problems:
                self._notice(f"to tell types and owners takes about {duration(self._found)}")
        return bool(self.problems)

    @property
    def problems(self) -> list[Statement]:
        if not self._seconds or self._found is None or self._found <= self._seconds:
            return []
        enough = math.ceil(self._found * ROOM)
        figures = {"seconds": round(self._found, 1), "at_most": self._seconds, "enough": enough}
        return [Statement("types-take-too-long", figures)]


def predict_cost(session: Session) -> LookCost:
    """Predicts the cost. The process may be running: what cannot be read is not counted."""
    process = session.target.image if isinstance(session.target.image, ProcessImage) else None
    size = (process.status.rss or 0) if process is not None else 0
    blocks = size // SMALL_BLOCK
    with suppress(ArenascopeError, OSError):
        blocks = likely_chunks(session, MOST) if session.started else 0
    whole = START + READING * tells_types(session.target) + EACH_BLOCK * blocks + EACH_BYTE * size
    return LookCost(whole, size / IN_A_SECOND)


TYPES = {"types": ("types", "totals")}
OWNERS = {"owners": ("owners", "live_bytes")}
WORDS = {"chunks": "chunks --summary", "types": "types --limit 0", "owners": "owners --limit 0"}
"""How the commands are typed."""
AT_MOST = 30.0
"""Default limit in seconds for finding types and owners."""
LONGEST_PAUSE = 86400
MOST_CONTAINERS = 1 << 12
"""The most containers stored, those that hold most first. A program has some hundreds."""
HELD = "types --owners --limit 0"
"""How `types` is typed if owners are wanted as well."""


def load(names: Iterable[str] = SECTIONS) -> dict[str, CommandRequest]:
    """Loads the commands; call it before a process is held."""
    return {name: parse_request(WORDS.get(name, name)) for name in names}


@command(
    "changes over time",
    "snapshot before.json",
    arguments=(
        argument("file", metavar="FILE", help="where to write it"),
        argument("--sizes", action="store_true", help="also store the number of blocks of each size"),
        argument(
            "--types",
            action="store_true",
            help="also store each type's name, blocks and bytes, and containers' elements",
        ),
        argument("--owners", action="store_true", help="also store what each variable, thread and mapping alone keeps"),
        argument(
            "--take-at-most",
            type=seconds,
            default=AT_MOST,
            metavar="TIME",
            help=f"store no types and owners where they are foretold to take longer ({AT_MOST:g}s; 0: in any case)",
        ),
    ),
    lists=lambda options: not (options.sizes or options.types or options.owners),
    mappings=always,
    copies=lambda options: bool(options.sizes or options.types or options.owners),
    whole=lambda options: bool(options.types or options.owners),
)
def snapshot_command(context: Context) -> Answer:
    """Save the figures of this moment into a small file, without any of the program's data.

    What is saved is what report, arenas, bins, threads and params say: sizes, counts, addresses, thread names. --sizes
    adds the histogram of block sizes, --types what the blocks are and, by debug information, how many elements
    containers have, --owners whose they are; for these a live process is copied in the shell, and runs on meanwhile. A
    name that ends in .gz is compressed.
    """
    options = context.options
    limit = look_limit(context, options.take_at_most)
    document = take(context, options.sizes, options.types, options.owners, limit=limit)
    problems = [*limit.problems, *problems_of(context.session)]
    # release first: a slow disk, or a FIFO's reader, must not keep the process standing still
    context.door.release()
    size = write(context.options.file, document)
    style = context.style
    arenas = document["arenas"]["arenas"]
    lines = [
        f"{context.options.file}: {count(len(arenas), 'arena')}, {style.size(size)} written",
        style.dim(f"next: {style.typed(f'diff {context.options.file}')}"),
    ]
    return Answer(SnapshotDocument(file=context.options.file, bytes=size), lines, problems)


def look_limit(context: Context, seconds: float = AT_MOST) -> LookLimit:
    """The time limit for types and owners."""
    return LookLimit(seconds, lambda said: context.door.notice(f"note: {said}\n"))


def take(
    context: Context, sizes: bool, types: bool = False, owners: bool = False, limit: Optional[LookLimit] = None
) -> JsonObject:
    """Takes a snapshot of the context's target. It has no time if that is a core. If more than lists is wanted, a live
    process of the shell's runs on afterwards. Types and owners are left out if they would take longer than `limit`."""
    deep = {**(TYPES if types else {}), **(OWNERS if owners else {})}
    limit = limit if deep else None
    loaded = load({**SECTIONS, **(SIZES if sizes else {}), **deep})
    if types and owners:
        loaded["types"] = parse_request(HELD)
    context.spared = limit.is_exceeded if limit is not None else None
    session, target = context.session, context.target
    if limit is not None and limit.is_exceeded(session):
        deep = {}
    taken = time.time() if target.kind == "live" else None
    document: dict[str, object] = {
        "arenascope": __version__,
        "taken": taken,
        "target": {"kind": target.kind, "pid": target.pid},
        "glibc": session.located.version,
    }
    for name, kept in SECTIONS.items():
        keys = loaded[name].answered(context).document.own()
        document[name] = {key: keys.get(key) for key in kept}
    problems = [*(limit.problems if limit is not None else ()), *problems_of(session)]
    if sizes or deep:
        beside = Context(context.door, context.options, session, copies=context.copies)
        for name, kept in {**(SIZES if sizes else {}), **deep}.items():
            answer = loaded[name].answered(beside)
            problems += [each for each in answer.problems if each not in problems]
            keys = answer.document.own()
            document[name] = part = {key: keys.get(key) for key in kept}
            if name in deep:
                of_a_type = (*OF_A_TYPE, "held_by") if owners else OF_A_TYPE
                told = OF_AN_OWNER if name == "owners" else of_a_type
                rows = part[name]
                assert isinstance(rows, Sequence)
                part[name] = [{key: row[key] for key in told} for row in rows]
        if "types" in deep:
            document.update(_containers(beside.session))
    document["problems"] = sentences(problems)
    return document


def take_moment(context: Context, types: bool) -> JsonObject:
    """Takes a snapshot, with types and containers if they are wanted and the image has them."""
    if types:
        types = context.session.started and not context.target.image.redacted
    return take(context, sizes=False, types=types)


def moment_before(context: Context, types: bool) -> Optional[JsonObject]:
    """The moment that a report is compared with: a snapshot, or a first look."""
    since, again = context.options.since, context.options.again
    if since is not None and again is not None:
        raise UsageError("--since and --again each name a moment: one of them is enough")
    if since is not None:
        load()
        return read(since)
    if again is None:
        return None
    if not 0 < again <= LONGEST_PAUSE:
        raise UsageError(f"--again {again:g}: more than 0 seconds, and {LONGEST_PAUSE} at most")
    if not context.door.lets_go:
        raise UsageError(
            "what is looked at here stands still",
            "save a snapshot, let the process run, then: report --since FILE",
        )
    before = take_moment(context, types)
    context.door.release()
    took = time.time() - before["taken"]
    wait = max(0.0, again - took)
    when = f"in {duration(wait)}" if wait else f"at once: the first took {duration(took)}"
    context.door.notice(f"the second look follows {when}\n")
    time.sleep(wait)
    context.renew()
    return before


def _containers(session: Session) -> JsonObject:
    """Containers found while types were named; empty if there are none."""
    named = session.block_results.named
    rows = containers_of(named)[:MOST_CONTAINERS] if named is not None else ()
    if not rows:
        return {}
    kept = [dict(row_record(each).items()) for each in rows]
    return {"containers": {"containers": [{key: row[key] for key in OF_A_CONTAINER} for row in kept]}}
