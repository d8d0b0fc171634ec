"""heap report: where resident memory went, why it stays, what would bring it back."""

from __future__ import annotations

from typing import Iterable, Optional, Sequence

from ..analysis.advice import find_advice
from ..analysis.causes import Facts, find_causes
from ..analysis.report import LABELS, Picture
from ..analysis.trim import Trim
from ..analysis.verdict import judge
from ..command import Answer, Context, argument, command
from ..gather.problems import problems_of
from ..gather.resident import resident_picture
from ..gather.trims import trims
from ..gather.usage import full_usages
from ..glibc.params import arena_limit
from ..model import Statement
from ..render.json import address
from ..render.problems import statement_json
from ..render.text import NO_HEAP, Style
from ..screens.advice import words
from ..screens.report import Conclusions, address_space, advice_line, cause_line, lines
from ..screens.verdict import cause, space_verdict, verdict
from ..session import Session
from .mmapped import mismatch

CORE_CANNOT_TELL = "a core does not tell which pages of files were in memory: the parts are of anonymous memory alone"
IN_A_CALL = "an arena is locked: some thread was inside malloc at this moment. Another moment may read whole: ask again"
NO_RESIDENCY = "this image does not tell which pages were in memory: the figures are address space"


@command(
    "where it went",
    "Say where resident memory went, why it stays, and what would bring it back.",
    "report",
    "The parts sum to RSS, all read in one frozen moment. Each cause and each advice comes with the figures of this "
    "process. An effect is what it would have changed here: exact for malloc_trim and the tops, a bound otherwise.",
    (argument("--full", action="store_true", help="every part, and each advice with its cost and all ways to set it"),),
)
def report_command(context: Context) -> Answer:
    session = context.session
    say = Style().size
    if not session.started:
        return _answer(context, None, Conclusions(Statement("no-heap", text=NO_HEAP), NO_HEAP))
    # smaps and page tables first: reading memory can map zero pages
    plans = trims(session)
    picture = resident_picture(session, plans)
    if picture is None:
        space = address_space(plans, full_usages(session))
        return _answer(context, None, Conclusions(space, space_verdict(space, say), notes=[NO_RESIDENCY]))
    facts = _facts(context, picture, plans)
    judgement = judge(facts)
    notes = [] if picture.rss is not None else [CORE_CANNOT_TELL]
    if facts.part("unread") and session.target.kind == "live" and any(each.mutex for each in session.headers):
        notes.append(IN_A_CALL)
    causes = [(each, cause(each, say)) for each in find_causes(facts)]
    advice = [(each, words(each, facts, say)) for each in find_advice(facts)]
    return _answer(context, picture, Conclusions(judgement, verdict(judgement, say), causes, advice, notes))


def _answer(context: Context, picture: Optional[Picture], concluded: Conclusions) -> Answer:
    text: Iterable[str] = [concluded.verdict]
    if context.session.started:
        text = lines(context.style, picture, concluded, full=context.options.full)
    problems = _problems(context.session) if picture else problems_of(context.session)
    return Answer(_keys(picture, concluded), text, problems)


def _problems(session: Session) -> list[Statement]:
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


def _keys(picture: Optional[Picture], concluded: Conclusions) -> dict[str, object]:
    parts = picture.parts if picture else {}
    return {
        "rss_bytes": picture.rss if picture else None,
        "swap_bytes": picture.swapped if picture else None,
        "parts": [{"part": name, "bytes": parts[name], "label": LABELS[name]} for name in LABELS if name in parts],
        "verdict": concluded.verdict,
        "causes": [
            {"cause": what, "evidence": evidence, **statement_json(said, cause_line((what, evidence)))}
            for said, (what, evidence) in concluded.causes
        ],
        "advice": [
            {
                "action": said.action,
                "effect_bytes": each.effect,
                "bound": each.bound,
                "evidence": said.evidence,
                "how": list(said.how),
                "cost": said.cost or None,
                "not_when": said.not_when or None,
                **statement_json(Statement(each.id, each.figures), advice_line(Style(), each, said)),
            }
            for each, said in concluded.advice
        ],
        "other_mappings": [
            {"address": address(each.region.start), "bytes": each.bytes, "name": each.name}
            for each in (picture.others if picture else ())
        ],
        "judgement": statement_json(concluded.judgement, concluded.verdict),
    }
