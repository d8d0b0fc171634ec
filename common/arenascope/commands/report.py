"""heap report: where resident memory went, why it stays, what would bring it back."""

from __future__ import annotations

from typing import Optional, Sequence

from ..analysis.advice import Advice, find_advice
from ..analysis.causes import Cause, Facts, find_causes
from ..analysis.report import LABELS, Picture
from ..analysis.verdict import verdict
from ..glibc.limits import arena_limit
from ..render.json import address
from ..render.text import Style
from ..session import Session
from . import Answer, Context, argument, command
from .gather import Trim, full_usages, problems_of, trims
from .gather_rss import resident_picture
from .mmapped import mismatch
from .report_text import lines, space_verdict

CORE_CANNOT_TELL = "a core does not tell which pages of files were in memory: the parts are of anonymous memory alone"
IN_A_CALL = "an arena is locked: some thread was inside malloc at this moment. Another moment may read whole: ask again"
NO_RESIDENCY = "this image does not tell which pages were in memory: the figures are address space"


@command(
    "Say where resident memory went, why it stays, and what would bring it back.",
    "report",
    "The parts sum to RSS, all read in one frozen moment. Each cause and each advice comes with the figures of this "
    "process. An effect is what it would have changed here: exact for malloc_trim and the tops, a bound otherwise.",
    (argument("--full", action="store_true", help="every part, and each advice with its cost and all ways to set it"),),
)
def report_command(context: Context) -> Answer:
    session = context.session
    if not session.started:
        return Answer(_keys(None, None, "no heap yet: malloc has not been called in this process", [], []),
                      ["no heap yet: malloc has not been called in this process"], problems_of(session))  # fmt: skip
    # smaps and page tables first: reading memory can map zero pages
    plans = trims(session)
    picture = resident_picture(session, plans)
    say = Style().size
    if picture is None:
        sentence, notes = space_verdict(plans, full_usages(session), say), [NO_RESIDENCY]
        keys = _keys(None, None, sentence, [], [])
        return Answer(keys, lines(context, sentence, None, [], [], notes), problems_of(session))
    facts = _facts(context, picture, plans)
    sentence = verdict(facts, say)
    causes, advice = find_causes(facts, say), find_advice(facts, say)
    notes = [] if picture.rss is not None else [CORE_CANNOT_TELL]
    if facts.part("unread") and session.target.kind == "live" and any(each.mutex for each in session.headers):
        notes.append(IN_A_CALL)
    keys = _keys(picture.rss, picture, sentence, causes, advice)
    return Answer(keys, lines(context, sentence, picture, causes, advice, notes), _problems(session))


def _problems(session: Session) -> list[str]:
    """A block too many or too few would be in the wrong part."""
    problem = mismatch(session) if session.params is not None else None
    return [*problems_of(session), *([problem] if problem else [])]


def _facts(context: Context, picture: Picture, plans: Sequence[Trim]) -> Facts:
    session = context.session
    release = session.located.version
    return Facts(
        picture=picture,
        params=session.params,
        page=session.target.page_size,
        usages=full_usages(session),
        threads=len(session.target.threads()),
        limit=arena_limit(session.params, session.layout, session.target),
        calls=sum(len(trim.plan.madvise or ()) for trim in plans),
        tunables=session.layout.behaviour.glibc_tunables,
        release=release or "of unknown version",
        allocators=session.located.allocators,
    )


def _keys(rss: Optional[int], picture: Optional[Picture], sentence: str, causes: Sequence[Cause],
          advice: Sequence[Advice]) -> dict[str, object]:  # fmt: skip
    parts = picture.parts if picture else {}
    return {
        "rss_bytes": rss,
        "swap_bytes": picture.swapped if picture else None,
        "parts": [{"part": name, "bytes": parts[name], "label": LABELS[name]} for name in LABELS if name in parts],
        "verdict": sentence,
        "causes": [{"cause": each.cause, "evidence": each.evidence} for each in causes],
        "advice": [{"action": each.action, "effect_bytes": each.effect, "bound": each.bound,
                    "evidence": each.evidence, "how": list(each.how), "cost": each.cost or None,
                    "not_when": each.not_when or None} for each in advice],
        "other_mappings": [{"address": address(each.region.start), "bytes": each.bytes, "name": each.name}
                           for each in (picture.others if picture else ())],
    }  # fmt: skip


