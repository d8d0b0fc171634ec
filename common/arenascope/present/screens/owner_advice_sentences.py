"""The sentences of `heap report`'s advice on what owners hold."""

from __future__ import annotations

from typing import Callable, Mapping, Optional

from ...analysis.causes import Facts
from ...analysis.report_holders import MainHolder, PageSharer
from ..shared_text.marked_names import with_verb
from ..shared_text.text import count
from .verdict import Figures, Names, Say, owner_called
from .ways_to_do import POOL_COST, POOLS, AdviceText, Symbols, TypedCommand, Way


def _clear(figure: Figures, names: Names, facts: Facts, say: Say) -> AdviceText:
    keeper = next(each for each in facts.clearable if each.called == names["owner"])
    size, back = say(figure["bytes"]), keeper.returns
    more = ""
    if back is not None:
        more = _once_freed(back, say)
        if back < keeper.alone and say(back) != size:
            more += f"; {_stays(keeper, facts, say)}"
        elif back > keeper.alone and say(back) != size:
            more += ", because its blocks also keep free memory beside them"
    local = keeper.kind == "stack"
    what = (
        f"what local variables ({keeper.called}) lead"
        if local
        else f"what {owner_called(keeper.called, keeper.kind)} leads"
    )
    return _spared(
        f"{what} to, or limit its size",
        f"nothing else leads to {size} in {count(figure['blocks'], 'block')}{more}",
        (TypedCommand("owners", "who holds what"), TypedCommand("types --owners", "what these blocks are")),
    )


def _stays(keeper: MainHolder, facts: Facts, say: Say) -> str:
    """Why only part of an owner's memory would return, and which other owner's blocks must be freed for more."""
    away = keeper.alone - (keeper.resident if keeper.resident is not None else keeper.alone)
    why = f"{say(away)} is not in memory, and the rest" if say(away) != say(0) else "the rest"
    return f"{why} shares its pages with what others hold{_beside(keeper.beside, facts, say)}"


def _beside(beside: Optional[PageSharer], facts: Facts, say: Say) -> str:
    """What leaves memory if both owners' blocks are freed; "" if that is little more."""
    if beside is None or not facts.matters(beside.more):
        return ""
    return f"; freed together with that of {beside.called}, {say(beside.returns)} leaves in all"


def _clear_all(figure: Figures, names: Names, facts: Facts, say: Say) -> AdviceText:
    """Advice to free what several owners lead to: it can be freed only once none of them needs it."""
    number, size = figure["owners"], say(figure["bytes"])
    joint = next((each for each in facts.clearable_jointly if each.called == names["owners"]), None)
    back = ""
    if joint is not None and joint.returns is not None:
        back = _once_freed(joint.returns, say) + _beside(joint.beside, facts, say)
    each = "both" if number == 2 else f"all {number}"
    return _spared(
        f"what {names['owners']} lead to ({each} of them: with one left, all of it stays)",
        f"together they lead to {size}, and nothing else does{back}",
        (TypedCommand("owners", "who holds what, and what would return"), TypedCommand("types --owners", "what it is")),
    )


def _spared(what: str, why: str, ways: tuple[Way, ...]) -> AdviceText:
    """Advice to free memory in use: only the program knows whether it is still needed."""
    return AdviceText(
        f"if the program can spare it, free {what}",
        why,
        ways,
        "a change of code; what is needed after all must be made again",
        not_when="not where all of it is used again at once",
        by_itself=True,
    )


def _once_freed(size: int, say: Say) -> str:
    return f": once freed, and malloc_trim(0) called, {say(size)} leaves memory"


def _keep_apart(figure: Figures, names: Names, facts: Facts, say: Say) -> AdviceText:
    """Advice on an owner that holds little, but on pages that other owners' blocks share."""
    size, up, in_all = figure["bytes"], figure["holds_up_bytes"], figure["returns_bytes"]
    return AdviceText(
        f"free what {with_verb(names['owners'], 'lead')} to as well, or keep its blocks apart from those of others: by "
        f"itself nothing, but with what others hold freed, {say(up)} more leaves, {say(in_all)} in all (kept apart, "
        f"all of that but its own {say(size)})",
        f"only {say(size)}, but on the pages of what others hold",
        (*POOLS, TypedCommand("owners", "who holds what")),
        POOL_COST,
        not_when="not while the rest of what lies on those pages stays",
    )


def _clear_owner(figure: Figures, names: Names, facts: Facts, say: Say) -> AdviceText:
    return _clear_all(figure, names, facts, say) if "owners" in names else _clear(figure, names, facts, say)


def _install_symbols(figure: Figures, names: Names, facts: Facts, say: Say) -> AdviceText:
    said = next(each for each in facts.nameable if each.names["owner"] == names["owner"])
    return AdviceText(
        f"install the debug symbols of {names['module']}: they name the variables that hold {say(figure['bytes'])}",
        f"{names['file']} is stripped",
        (Symbols(said), TypedCommand("owners", "then: which variable holds what")),
        all_apply=True,
    )


OWNERS: Mapping[str, Callable[[Figures, Names, Facts, Say], AdviceText]] = {
    "clear-owner": _clear_owner,
    "install-symbols": _install_symbols,
    "keep-owner-apart": _keep_apart,
}
