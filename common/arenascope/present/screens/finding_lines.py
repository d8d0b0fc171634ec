"""What a report finds of memory that the program need not have: waste, what is lost, free memory that blocks pin."""

from __future__ import annotations

from typing import Annotated, Iterator, NamedTuple, Optional, Sequence

from ...analysis.causes import WORTH, Facts
from ...analysis.held_sums import LeakRow
from ...analysis.resident_parts import SPACE
from ...base.class_names import type_words, with_short_names
from ...base.heap_model import FINDING_REASONS, Statement
from ...blocks.declared.waste_rows import WasteRow
from ..json_documents.record import Address, Record, Size, StatementRecord, statement_record
from ..shared_text.lines_and_tables import Style, count, share
from .type_lines import GUESS
from .waste_lines import ADVICE as OF_WASTE
from .waste_lines import advice as advice_on_waste
from .waste_lines import sentence as waste_sentence

OF_LIVE, OF_HEAP = 20, 4
"""A finding is told from such a part of the live bytes on; pinned free memory from such a part of the heap."""
IN_DOCUMENTS = 100
"""In documents it is from such a part on."""
FIRST = 3
"""So many are on the screen."""
LITTLE = 4
"""Blocks pin free memory if it is more than so many times as much as they have themselves."""


class FindingRecord(Record):
    """Much memory that the program need not have. Findings may overlap: bytes of one may be another's, too."""

    reason: Annotated[str, ("enum", FINDING_REASONS)]
    """Why it need not: one of waste's reasons, lost or cycle as in leaks, or pinned-free (it is free, and blocks of a
    type keep it)."""
    path: Optional[str]
    """The way to it, as the program would write it; null: nothing leads there, or it is told by type alone."""
    type: Optional[str]
    """Of the containers or of the blocks; null: not known."""
    may_be: Sequence[str]
    """Of lost blocks of which only the size is known: structs that they may be, the likeliest first."""
    certain: bool
    """False: something of it is a guess."""
    blocks: Size
    """How many containers or blocks are at fault."""
    bytes: Size
    """What it costs; of what is lost with all that only that leads to."""
    resident_bytes: Optional[Size]
    """What of that is in memory; null: not known."""
    sample: Address
    """One of the blocks: what malloc returned."""
    text: str
    """The finding in words."""
    advice: StatementRecord
    """What to change in the program."""
    until: StatementRecord
    """What can be done while the program is as it is."""


class PinnedFree(NamedTuple):
    """Free memory between blocks."""

    by: int
    """So many bytes these blocks have."""
    returns: int
    """What of it malloc_trim(0) returns."""


class ReportFinding(NamedTuple):
    """Much memory that the program need not have."""

    reason: str
    """One of FINDING_REASONS."""
    path: Optional[str]
    """The way to it; None: nothing leads there, or blocks of one type are at fault wherever they are."""
    type: Optional[str]
    certain: bool
    number: int
    """How many containers or blocks are at fault."""
    bytes: int
    resident: Optional[int]
    """What of that is in memory; None: not known."""
    sample: int
    """One of the blocks."""
    waste: Optional[WasteRow] = None
    lost: Optional[LeakRow] = None
    pinned: Optional[PinnedFree] = None
    """One of these three: what it was found by."""


def find_all(waste: Sequence[WasteRow], facts: Facts, live: int) -> list[ReportFinding]:
    """The largest first; what is lost counts double, as copies and unused room in it go once it is freed. `live`: bytes
    of all blocks."""
    lost = [*facts.held.lost_rows, *facts.held.perhaps_rows] if facts.held else []
    found = [*map(_of_waste, waste), *map(_of_lost, lost), *_pinned(facts)]
    found = [each for each in found if each.bytes * IN_DOCUMENTS >= live]
    return sorted(found, key=lambda each: -each.bytes * (2 if each.lost is not None else 1))


def worth_saying(found: Sequence[ReportFinding], live: int) -> Sequence[ReportFinding]:
    """Those that are certain, and of which much is in memory. What is lost certainly is, whatever its type may be."""
    return [
        each
        for each in found
        if (each.certain or each.lost is not None)
        and each.bytes * OF_LIVE >= live
        and min(each.bytes, each.bytes if each.resident is None else each.resident) >= WORTH
    ][:FIRST]


def _of_waste(row: WasteRow) -> ReportFinding:
    return ReportFinding(
        row.reason,
        row.path,
        row.type,
        certain=row.certain,
        number=row.number,
        bytes=row.unused,
        resident=row.resident,
        sample=row.sample,
        waste=row,
    )


def _of_lost(row: LeakRow) -> ReportFinding:
    return ReportFinding(
        row.reason or "lost",
        None,
        row.type,
        certain=row.certain and row.strength == "definite",
        number=row.blocks,
        bytes=row.all_bytes,
        resident=row.resident,
        sample=row.samples[0],
        lost=row,
    )


def _pinned(facts: Facts) -> Iterator[ReportFinding]:
    """The type whose blocks strand most of what is stranded: it stands at the ends of most free pieces, so that what is
    free between blocks is kept by it, too."""
    group, heap = facts.strander, facts.picture.live + facts.picture.free
    if group is None:
        return
    row, size = group.row, group.beside + facts.between
    if size > LITTLE * row.bytes and OF_HEAP * size >= heap:
        yield ReportFinding(
            "pinned-free",
            None,
            row.kind.name,
            certain=row.kind.certain,
            number=row.blocks,
            bytes=size,
            resident=None if facts.picture.measure == SPACE else size,
            sample=row.samples[0],
            pinned=PinnedFree(row.bytes, facts.between),
        )


def sentence(style: Style, each: ReportFinding, live: int) -> str:
    """What it is, in the program's own words."""
    if each.waste is not None:
        return with_short_names(waste_sentence(style, each.waste, live))
    in_memory = "" if each.resident is None else f", {style.size(each.resident)} of it in memory"
    if each.lost is not None:
        below = each.lost.indirect_blocks
        only = "it leads" if each.number == 1 else "they lead"
        more = f", with {count(below, 'block')} that only {only} to" if below else ""
        is_lost = "is" if each.number == 1 else "are"
        part = share(each.bytes, live)
        guessed = "" if each.lost.certain else GUESS
        if each.reason == "cycle":
            way = f" ({' → '.join((*each.lost.cycle, '…'))})" if each.lost.cycle else ""
            cycles = f"{count(each.number, 'cycle')} of {type_words(each.type or '')}{guessed}"
            what = "nothing but unused room of containers" if each.lost.strength == "possible" else "nothing else"
            nothing = f"{what} leads to {'it' if each.number == 1 else 'them'}"
            return f"{cycles}{way}: {nothing}, {style.size(each.bytes)}, {part} of the live bytes{in_memory}"
        kind = f"{count(each.number, 'block')} of {type_words(each.type or '')}{guessed}"
        guess = f" (they may be {each.lost.may_be[0]})" if each.lost.may_be else ""
        surely = "perhaps lost" if each.lost.strength == "possible" else "lost"
        return f"{kind}{guess} {is_lost} {surely}{more}: {style.size(each.bytes)}, {part} of the live bytes{in_memory}"
    kind = f"{count(each.number, 'block')} of {type_words(each.type or '')}{'' if each.certain else GUESS}"
    stand, keep = ("stands", "keeps") if each.number == 1 else ("stand", "keep")
    own, returns = each.pinned or PinnedFree(0, 0)
    kept = f"{kind} ({style.size(own)}) {stand} between free ones and {keep} {style.size(each.bytes)} of free memory"
    shared = f"in pages that {'it shares' if each.number == 1 else 'they share'}"
    if not returns:
        return f"{kept} in the heap, {shared}: no trim returns it"
    trimmed = f"{style.size(returns)} in whole pages, which malloc_trim(0) returns"
    return f"{kept} in the heap: {trimmed}, and {style.size(each.bytes - returns)} {shared}, which no trim returns"


ADVICE = {
    **OF_WASTE,
    "free-lost": "free it when the last pointer to it goes: `chunk` shows what is in it, valgrind or "
    "`-fsanitize=leak` where it was allocated",
    "break-cycle": "make one pointer of the cycle a weak one (`weak_ptr`, `Weak`): that to the parent or owner; or "
    "clear it when the last one outside goes",
    "place-apart": "allocate these blocks in a pool of their own (an array, a slab, `std::pmr`), or before the large "
    "ones: then what is freed lies together, and goes back",
}
"""What to change in the program, by id."""


def advice(each: ReportFinding) -> Statement:
    if each.waste is not None:
        return advice_on_waste(each.waste)
    figures = {"bytes": each.bytes, "resident_bytes": each.resident, "blocks": each.number}
    id = "place-apart" if each.lost is None else "break-cycle" if each.reason == "cycle" else "free-lost"
    return Statement(id, figures, {"type": each.type or ""})


WITH_THE_DATA = ("tiny-containers", "node-overhead", "rounding", "duplicates", "captured")
"""Reasons of what the program makes with all of its data: a restart makes it again."""


def until_then(each: ReportFinding) -> Statement:
    """What an operator can do while the program is as it is."""
    id = "restart"
    if each.reason in WITH_THE_DATA:
        id = "plan-for-it"
    elif each.pinned is not None and each.pinned.returns >= WORTH:
        return Statement("trim-until-then", {"bytes": each.bytes, "resident_bytes": each.pinned.returns})
    return Statement(id, {"bytes": each.bytes, "resident_bytes": each.resident})


def until_text(style: Style, said: Statement) -> str:
    """Without a command: documents are the same in each door."""
    resident = said.figures["resident_bytes"]
    size = style.size(int((said.figures["bytes"] if resident is None else resident) or 0))
    if said.id == "plan-for-it":
        return (
            f"until the program is changed no setting helps: its data needs this memory; what is rarely used of the "
            f"{size} can be swapped out"
        )
    if said.id == "trim-until-then":
        return f"until the program is changed, call malloc_trim(0) now and then: at present it returns {size}"
    return f"until the program is changed, a restart frees {size}, which will come back"


def lines(style: Style, each: ReportFinding) -> Iterator[str]:
    """What to do about it."""
    yield ADVICE[advice(each).id]
    until = until_then(each)
    yield until_text(style, until) + (f" ({style.applied('trim --apply')})" if until.id == "trim-until-then" else "")


def record(each: ReportFinding, live: int) -> FindingRecord:
    todo, until = advice(each), until_then(each)
    return FindingRecord.of(
        each,
        blocks=each.number,
        may_be=each.lost.may_be if each.lost is not None else (),
        text=sentence(Style(), each, live),
        advice=statement_record(todo, ADVICE[todo.id]),
        until=statement_record(until, until_text(Style(), until)),
    )
