"""`version --full`: the candidates for each thing that had to be found, and what speaks for and against them."""

from __future__ import annotations

from typing import Iterator

from ...glibc.process_layout import KINDS, Candidate, CandidateTrail
from ..json_documents import glibc_records as records
from ..json_documents.record import statement_record
from ..shared_text.text import Style, count
from .evidence import evidence

SHOWN = 20
"""Of one kind; a scan may meet hundreds of places for mp_."""
TITLES = {
    "main_arena": "main_arena",
    "mp_": "mp_",
    "layout": "layout of malloc_state and heap_info",
    "thread_arena": "each thread's arena",
    "thread_caches": "each thread's cache",
}


def candidates_lines(style: Style, trail: CandidateTrail) -> Iterator[str]:
    for kind in KINDS:
        met = trail.of(kind)
        yield ""
        if not met:
            yield style.bold(TITLES[kind]) + ": there was no candidate"
            continue
        taken = "" if met[0].chosen else ", none was taken"
        yield style.bold(TITLES[kind]) + f": {count(len(met), 'candidate')}{taken}"
        for each in met[:SHOWN]:
            yield f"  {each.name}{' (taken)' if each.chosen else ''}"
            yield from (f"    + {evidence(said)}" for said in each.speaks_for)
            yield from (f"    - {evidence(said)}" for said in each.against)
        if len(met) > SHOWN:
            yield f"  {len(met) - SHOWN:,} more left out; --json lists them"


def candidates_of(trail: CandidateTrail) -> records.Candidates:
    return records.Candidates(**{kind: [_candidate(each) for each in trail.of(kind)] for kind in KINDS})


def _candidate(candidate: Candidate) -> records.CandidateRecord:
    speaks_for, against = (
        [statement_record(said, evidence(said)) for said in given]
        for given in (candidate.speaks_for, candidate.against)
    )
    return records.CandidateRecord(
        name=candidate.name,
        taken=candidate.chosen,
        for_=[said.text for said in speaks_for],
        against=[said.text for said in against],
        for_records=speaks_for,
        against_records=against,
    )
