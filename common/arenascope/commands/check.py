"""heap check: every invariant, and each place where one is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, Optional, Sequence

from ..base.model import WHAT, Breach, Statement, whole
from ..present.json_documents import block_records as records
from ..present.json_documents.record import address, hexadecimal, statement_record
from ..present.shared_text.findings import breach_words, sentence
from ..present.shared_text.text import NO_HEAP, Style, count, table
from ..session.check import Busy, audit
from ..session.resident import miscounted, problems_of
from ..session.session import Session
from .framework.command import ARENA, LIMIT, Answer, Context, always, command

if TYPE_CHECKING:
    from ..session.check import Audit

BROKEN = 1


@command(
    "chunk by chunk",
    "Check chunks, bins, thread caches, heaps and arenas against all of malloc's rules.",
    "check",
    "Each row is a breach: its address, what was expected there and what was found. What a malloc or free in progress "
    "may leave for a moment does not count as damage, where an arena is locked or a thread is inside malloc. In the "
    "shell a live process is copied, and runs on meanwhile; the exit status is 1 if there is damage.",
    arguments=(ARENA, LIMIT),
    copies=always,
)
def check_command(context: Context) -> Answer:
    session = context.session
    context.check_arena(context.options.arena)
    outcome = audit(session, context.options.arena)
    damage = [each for each in outcome.breaches if not each.transient]
    # what walkers found is in the breaches or in outcome.unread; fewer blocks than mp_ counts are no breach
    counted = miscounted(session) if any(each.rule == "mmapped-count" for each in outcome.breaches) else []
    others = [each for each in problems_of(session) if WHAT not in each.names and each not in counted]
    problems = list({sentence(each): each for each in [*others, *outcome.unread]}.values())
    judgement = judge(outcome, damage, problems) if session.started else Statement("no-heap", text=NO_HEAP)
    verdict = judgement.text or _verdict(judgement)
    found = records.CheckDocument(
        breaches=[_record(each) for each in outcome.breaches],
        busy=[records.BusyRecord.of(each) for each in outcome.busy],
        checked=records.Checked.of(outcome),
        verdict=verdict,
        judgement=statement_record(judgement, verdict),
    )
    return Answer(found, _lines(context, outcome, damage, verdict), problems, BROKEN if damage else 0)


def _record(breach: Breach) -> records.BreachRecord:
    words = breach_words(breach)
    return records.BreachRecord.of(
        statement_record(breach.what, words.sentence),
        address=hexadecimal(breach.address),
        arena=breach.arena,
        rule=breach.rule,
        expected=words.expected,
        found=words.found,
        culprit=address(breach.culprit),
        transient=breach.transient,
    )


def _lines(context: Context, outcome: Audit, damage: Sequence[Breach], verdict: str) -> Iterator[str]:
    style, session = context.style, context.session
    if not session.started:
        yield verdict
        return
    yield style.bold(verdict)
    for each in outcome.busy:
        yield _who(session, each)
    if not outcome.breaches:
        return
    yield ""
    rows = [
        [
            f"{each.address:#x}",
            "-" if each.arena is None else str(each.arena),
            each.rule + (" (in transition)" if each.transient else ""),
            *breach_words(each),
        ]
        for each in outcome.breaches
    ]
    headers, limit = ("address", "arena", "rule", "expected", "found"), context.options.limit
    yield from table(style, headers, rows, left=(0, 1, 2, 3, 4), limit=limit, what="breach", many="breaches")
    yield ""
    yield from _hints(style, damage)


def judge(outcome: Audit, damage: Sequence[Breach], problems: Sequence[Statement]) -> Statement:
    figures = {
        "arenas": outcome.arenas,
        "chunks": outcome.chunks,
        "list_entries": outcome.bin_entries + outcome.tcache_entries,
        "breaches": len(damage),
        "passing": len(outcome.breaches) - len(damage),
    }
    if damage:
        return Statement("damaged", figures, {"lowest": f"{min(breach.address for breach in damage):#x}"})
    return Statement("busy" if outcome.breaches else "no-breach-in-part" if problems else "sound", figures)


def _verdict(said: Statement) -> str:
    figures = whole(said.figures)
    checked = (
        f"{count(figures['arenas'], 'arena')}, {count(figures['chunks'], 'chunk')}, "
        f"{count(figures['list_entries'], 'list entry', 'list entries')} checked"
    )
    if said.id == "damaged":
        breaches = count(figures["breaches"], "breach", "breaches")
        return f"damaged: {breaches}, the lowest at {said.names['lowest']}; {checked}"
    if said.id == "busy":
        return f"busy: a malloc or free in progress explains all that is not in order; {checked}"
    if said.id == "no-breach-in-part":
        return f"no breach in what could be read: {checked}"
    return f"sound: {checked}"


def _who(session: Session, busy: Busy) -> str:
    name = next((cache.name for cache in session.thread_owners if cache.tid == busy.tid), None)
    thread = f"thread {busy.tid}" + (f" ({name})" if name else "")
    where = f"arena {busy.arena}" if busy.arena is not None else "no arena yet"
    if not busy.locked:
        return f"busy: {thread}, {where}, is inside malloc"
    return f"busy: {where} is locked by {thread}" if busy.tid is not None else f"busy: {where} is locked"


def _hints(style: Style, breaches: Sequence[Breach]) -> Iterator[str]:
    if not breaches:
        yield style.dim(f"next: let the process run for a moment, then {style.typed('check')}")
        return
    first = breaches[0]
    culprit: Optional[Breach] = next((each for each in breaches if each.culprit is not None), None)
    if culprit is not None and culprit.culprit is not None:
        yield (
            f"an overflow of the block in front may have overwritten the header at {culprit.address:#x}: "
            f"{style.typed(f'chunk {culprit.culprit:#x}')}"
        )
    yield style.dim(f"next: {style.typed(f'chunk {first.address:#x}')}, {style.typed('bins')}")
