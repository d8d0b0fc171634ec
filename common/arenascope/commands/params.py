"""heap params: the values of mp_, with their defaults and what the environment asked for."""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.heap_model import Params, Statement
from ..glibc.malloc_par import (
    MAX_FAST,
    MMAP_THRESHOLD,
    PERTURB,
    TOP_PAD,
    TRIM_THRESHOLD,
    ArenaLimit,
    Request,
    arena_limit,
    default_max_fast,
    max_fast_of,
    requests,
)
from ..glibc.process_layout import Layout
from ..present.json_documents.record import Document, Record, Size, StatementRecord, statement_record
from ..present.shared_text.lines_and_tables import AT_LEAST, Style, count, number, table
from ..session.problems import depends_on_mp, problems_of, unknown_release
from .framework.command import Answer, Context, command


class ParamRecord(Record):
    """A parameter."""

    name: str
    """mp_'s field, or global_max_fast (M_MXFAST), perturb_byte (M_PERTURB)."""
    value: Optional[int]
    """As it stands; null: nothing tells, or this glibc has none."""
    default: Optional[int]
    """In this glibc."""
    requested: Optional[str]
    """What the environment asked for."""
    note: Optional[str]
    """Whether it took effect, or how it changed."""
    note_record: Optional[StatementRecord]
    """The note, apart from its words."""


class ArenaLimits(Record):
    """How many arenas there are and may be."""

    count: Optional[Size]
    """How many there are."""
    limit: Optional[float]
    """The maximum that this glibc makes."""


class ParamsDocument(Document, command="params"):
    """The answer of params."""

    params: Sequence[ParamRecord]
    """In mp_'s own order, then what lies beside it."""
    arenas: ArenaLimits
    note: Optional[str]
    """Whether any of them was changed."""
    note_record: Optional[StatementRecord]
    """The same, apart from its words: how many have a default, how many are not at it, how many the environment asked
    for; the arenas' limit, where it follows from the number of processors, with that."""


@command(
    "arenas and lists",
    "params",
)
def params_command(context: Context) -> Answer:
    """Show malloc's parameters: value, default, what the environment asked for, whether it took effect.

    mmap_threshold and trim_threshold grow by themselves: free() of a mmapped block raises the first to its size and the
    second to twice that, unless either was set, or top_pad, or mmap_max. global_max_fast and perturb_byte are what
    mallopt's M_MXFAST and M_PERTURB set.
    """
    session = context.session
    environment = session.target.environment()
    release = unknown_release(session)
    rows: Sequence[Param] = []
    if session.params:
        beside = {MAX_FAST: session.max_fast, PERTURB: session.perturb}
        secure = bool(session.target.is_secure())
        rows = describe_params(
            session.params,
            session.layout,
            environment,
            not release,
            beside=beside,
            secure=secure,
            begun=bool(session.headers) and session.headers[0].initialised,
        )
    depends_on_mp(session)
    limit = arena_limit(session.params, session.layout, session.target)
    headers = session.headers
    problems = problems_of(session) + release
    if environment is None:
        problems.append(Statement("environment-unknown"))
    said = summed_up(rows, limit, environment) if rows else None
    found = ParamsDocument(
        params=[_record(row) for row in rows],
        arenas=ArenaLimits(count=len(headers) if session.all_arenas else None, limit=limit.arenas),
        note=said and summary(said),
        note_record=said and statement_record(said, summary(said)),
    )
    return Answer(found, _lines(context, rows, limit, said), problems)


SIZES = {
    "trim_threshold",
    "top_pad",
    "mmap_threshold",
    "thp_pagesize",
    "hp_pagesize",
    "mmapped_mem",
    "max_mmapped_mem",
    "max_total_mem",
    "tcache_max_bytes",
    MAX_FAST,
}


class Param(NamedTuple):
    """One field of mp_."""

    name: str
    value: Optional[int]
    default: Optional[int]
    requested: Optional[str]
    note: Optional[Statement]

    @property
    def is_size(self) -> bool:
        return self.name in SIZES


def defaults(layout: Layout) -> dict[str, int]:
    values = {
        "trim_threshold": TRIM_THRESHOLD,
        "top_pad": TOP_PAD,
        "mmap_threshold": MMAP_THRESHOLD,
        "arena_test": 8 if layout.word == 8 else 2,
        "arena_max": 0,
        "thp_pagesize": 0,
        "hp_pagesize": 0,
        "hp_flags": 0,
        "n_mmaps_max": 65536,
        "no_dyn_threshold": 0,
        "tcache_count": layout.behaviour.tcache_count,
        "tcache_unsorted_limit": 0,
    }
    if layout.tcache is not None:
        values["tcache_bins"] = 64
        small = layout.min_size + 63 * layout.align
        values["tcache_max_bytes"] = small + 1 if layout.behaviour.tcache_logarithmic else small - layout.word
    return values


CHANGED = ("tcache_count", "tcache_max_bytes")
"""Fields whose default differs between releases."""


def describe_params(
    params: Params,
    layout: Layout,
    environment: Optional[Mapping[str, str]],
    release_known: bool = True,
    beside: Mapping[str, Optional[int]] = {},
    secure: bool = False,
    begun: bool = True,
) -> list[Param]:
    """Describes every field, in mp_'s own order, followed by variables outside mp_ (`beside`). `secure` as in
    requests(); `begun`: malloc_init_state() has run."""
    known = {name: value for name, value in defaults(layout).items() if release_known or name not in CHANGED}
    asked = requests(environment or {}, layout.behaviour, secure)
    rows = []
    for name, value in params.values.items():
        request = asked.pop(name, None)
        text = request.text if request else None
        rows.append(Param(name, value, known.get(name), text, note=_effect_of(params, name, known, request)))
    for name, beside_value in beside.items():
        rows.append(_beside(layout, name, beside_value, asked.pop(name, None), begun=begun))
    for name, request in asked.items():
        # asked for, and this glibc has no such field, or one that is newer than the table keeps it somewhere else
        lacking = Statement("no-such-parameter" if layout.newer is None else "known-in-parts")
        unset = 0 if layout.newer is None else None
        rows.append(Param(name, unset, None, request.text, note=request.refusal or lacking))
    return rows


UNTOUCHED = "set-by-first-call"


def summed_up(rows: Sequence[Param], limit: ArenaLimit, environment: Optional[Mapping[str, str]]) -> Statement:
    """Tells whether anything was changed, and what limits the number of arenas."""
    known = [row for row in rows if row.value is not None and row.default is not None]
    changed = [row.name for row in known if row.value != row.default and not (row.note and row.note.id == UNTOUCHED)]
    figures = {
        "with_default": len(known),
        "changed": len(changed),
        "requested": None if environment is None else sum(row.requested is not None for row in rows),
        "limit": limit.arenas,
        "processors": limit.processors,
        "arenas_each": limit.each,
    }
    return Statement("not-at-defaults" if changed else "at-defaults", figures, {"changed": ", ".join(changed)})


def _beside(layout: Layout, name: str, value: Optional[int], request: Optional[Request], *, begun: bool) -> Param:
    """Describes global_max_fast or perturb_byte."""
    fast = name == MAX_FAST
    default = 0 if not fast else default_max_fast(layout) if layout.fastbins else None
    note: Optional[Statement] = None
    if request is not None and (request.refusal or request.value is None):
        note = _effect(0, request)
    elif value is None:
        note = Statement("no-fastbins" if fast and not layout.fastbins else "place-unknown")
    elif request is not None and request.value is not None:
        wanted = max_fast_of(layout, request.value) if fast else request.value
        stands = {"requested": request.value, "value": value}
        note = Statement("in-effect") if wanted == value else Statement("not-in-effect", stands)
    elif fast and not begun and value == 0:
        note = Statement(UNTOUCHED)
    elif value != default:
        note = Statement("set-by-program")
    return Param(name, value, default, request.text if request else None, note=note)


def _effect_of(params: Params, name: str, known: Mapping[str, int], request: Optional[Request]) -> Optional[Statement]:
    values = params.values
    if request is not None:
        return _effect(values[name], request)
    dynamic = values["no_dyn_threshold"] == 0
    figures = {"bytes": values[name]}
    if name == "mmap_threshold" and values[name] != known[name]:
        return Statement("grew-by-itself" if dynamic else "set-and-fixed", figures)
    if name == "trim_threshold" and values[name] != known[name]:
        twice = dynamic and values[name] == 2 * values["mmap_threshold"]
        return Statement("twice-mmap-threshold" if twice else "set-by-program", figures)
    if name == "no_dyn_threshold" and values[name]:
        return Statement("thresholds-fixed")
    if name == "arena_max" and not values[name]:
        return Statement("no-limit-set")
    return None


def _effect(value: int, request: Request) -> Statement:
    if request.refusal:
        return request.refusal
    if request.value is None:
        return Statement("no-number", names={"requested": request.text})
    if request.mode:
        return Statement("mode-in-effect" if value else "mode-without-effect")
    if request.value == value:
        return Statement("in-effect")
    return Statement("not-in-effect", {"requested": request.value, "value": value})


def summary(said: Statement) -> str:
    """Whether any parameter was set."""
    figure = said.figures
    whole = f"all {figure['with_default']} parameters that have a default are at it"
    if figure["changed"]:
        verb = "is" if figure["changed"] == 1 else "are"
        whole = f"{figure['changed']} of {figure['with_default']} parameters {verb} not at the default: "
        whole += said.names["changed"]
    asked = figure["requested"]
    if asked is None:
        return f"{whole}; what the environment asked for is not known"
    return f"{whole}; the environment asked for {asked or 'nothing'}"


NOTES = {
    "misspelt-variable": "ignored: the name is {right}",
    "no-malloc-tunables": "ignored: this glibc reads no malloc tunables (2.26 does)",
    "secure-program": "ignored: glibc heeds no such setting where the program's file is set-user-ID or set-group-ID, "
    "or has capabilities",
    "no-such-parameter": "this glibc has no such parameter",
    "known-in-parts": "mp_ of this glibc is known in parts",
    "no-number": "{requested} is no number: ignored",
    "in-effect": "in effect",
    "mode-in-effect": "in effect: a mode was asked for, and this is how large its pages are",
    "mode-without-effect": "without effect: the system has no such pages for malloc to ask for, or gives them unasked",
    "not-in-effect": "asked for {requested:,}, but {value:,} stands: refused as out of range, or changed since",
    "grew-by-itself": "grown by itself: a mmapped block of {bytes:,} bytes was freed, so requests below that no longer "
    "get a mapping of their own",
    "set-and-fixed": "set by the program (mallopt): it no longer grows",
    "twice-mmap-threshold": "twice mmap_threshold, since that grew: free() does not trim a top smaller than {bytes:,} "
    "bytes, in any arena",
    "set-by-program": "set by the program (mallopt)",
    "set-by-first-call": "the first call of glibc's malloc sets it: there was none",
    "thresholds-fixed": "mmap_threshold and trim_threshold stay as they are: one of them, top_pad or mmap_max was set",
    "no-fastbins": "this glibc has no fastbins",
    "place-unknown": "only symbols of this very libc tell where it lies",
    "no-limit-set": "no limit was set: glibc counts processors",
}


def _note(said: Statement) -> str:
    return NOTES[said.id].format(**said.figures, **said.names)


def _record(row: Param) -> ParamRecord:
    note = _note(row.note) if row.note else None
    return ParamRecord.of(row, note=note, note_record=statement_record(row.note, note) if row.note and note else None)


def _lines(context: Context, rows: Sequence[Param], limit: ArenaLimit, said: Optional[Statement]) -> Iterator[str]:
    style, session = context.style, context.session
    arenas = len(session.headers)
    limited = "(their limit is not known here)"
    if limit.arenas is not None:
        why = f" ({limit.each} for each of {count(limit.processors, 'processor')})" if limit.processors else ""
        limited = f"of at most {limit.arenas:,}{why}"
    least = "" if session.all_arenas else AT_LEAST
    # a problem says so if it is not known
    version = f"; glibc {session.located.version}" if session.located.version else ""
    yield style.bold(f"{least}{count(arenas, 'arena')} {limited}{version}")
    if said is not None:
        yield summary(said)
    yield ""
    cells = [
        [row.name, _value(style, row, row.value), _value(style, row, row.default), row.requested or ""] for row in rows
    ]
    yield from table(style, ("parameter", "value", "default", "asked for"), cells, left=(0, 3))
    notes = [(row.name, _note(row.note)) for row in rows if row.note]
    if notes:
        yield ""
    for name, note in notes:
        yield style.bold(name) + f": {note}"


def _value(style: Style, row: Param, value: Optional[int]) -> str:
    if row.name == "sbrk_base":
        return f"{value:#x}" if value is not None else ""
    if value is None:
        return ""
    return style.size(value) if row.is_size else number(value)
