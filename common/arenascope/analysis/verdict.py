"""The sentence that answers: where resident memory is, and whether it is a leak."""

from __future__ import annotations

from .causes import Facts, Say

SECONDS_PER_BYTE = 1 / 12e9
SECONDS_PER_CALL = 1.5e-6
"""Measured: madvise returns 4 KiB pages at 10 to 20 GB/s, and costs about a microsecond a call."""


def trim_seconds(returned: int, calls: int) -> float:
    return returned * SECONDS_PER_BYTE + calls * SECONDS_PER_CALL


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{max(1, round(seconds * 1000))} ms"


def verdict(facts: Facts, say: Say) -> str:
    picture = facts.picture
    name = "RSS" if picture.rss is not None else "Anonymous memory in this core"
    arenas = f"{len(facts.usages)} arenas" if len(facts.usages) != 1 else "1 arena"
    text = f"{name} {say(facts.rss)}: {say(picture.live)} live, {say(picture.free)} free in {arenas}"
    details = list(_details(facts, say))
    if details:
        text += f" ({'; '.join(details)})"
    rest = facts.rss - picture.live - picture.free - facts.part("unread")
    if facts.matters(rest):
        text += f", {say(rest)} not malloc's"
    if facts.part("unread"):
        text += f", {say(facts.part('unread'))} in arenas that could not be read whole"
    return f"{text}. {judgement(facts, say)}"


def _details(facts: Facts, say: Say) -> list[str]:
    found = []
    returnable = facts.part("returnable")
    tops = facts.part("thread_tops")
    if returnable or facts.matters(tops):
        seconds = duration(trim_seconds(returnable, facts.calls))
        found.append(f"malloc_trim returns {say(returnable)} now, in about {seconds}" if returnable else
                     "malloc_trim returns nothing")  # fmt: skip
    if facts.matters(tops):
        count = sum(1 for each in facts.picture.arenas if each.arena and each.top)
        where = f"{count} thread-arena {'top' if count == 1 else 'tops'}"
        found.append(f"{say(tops)} sits in {where} that it never touches")
    if facts.matters(facts.part("scraps")):
        found.append(f"{say(facts.part('scraps'))} is stranded below page size")
    if facts.matters(facts.part("tcache")):
        found.append(f"{say(facts.part('tcache'))} is in thread caches")
    return found


def judgement(facts: Facts, say: Say) -> str:
    """What kind of problem this is."""
    picture = facts.picture
    if facts.part("unread"):
        return "No judgement: part of the heap could not be read."
    if 2 * (picture.live + picture.free) < facts.rss:
        return f"{_elsewhere(facts)}: trimming {'helps little' if facts.matters(picture.free) else 'cannot help'}."
    if picture.free >= picture.live and facts.matters(picture.free):
        cause = (f"Cause: a freed block of {say(facts.grown)} raised mmap_threshold. " if facts.grown
                 and picture.free < 2 * (facts.part("thread_tops") + facts.part("main_top")) + facts.part("returnable")
                 else "")  # fmt: skip
        return f"{cause}Not a leak: the program freed it, malloc holds it."
    if 10 * picture.live >= 7 * (picture.live + picture.free):
        return "This is live data: whether it is a leak only the program knows; malloc has little to give back."
    return "Live data and freed memory both matter here."


def _elsewhere(facts: Facts) -> str:
    if 2 * facts.part("other") > facts.rss:
        return "Most of it did not come from this malloc"
    for name, what in (("files", "mapped files"), ("shared", "shared memory")):
        if 2 * facts.part(name) > facts.rss:
            return f"Most of it is {what}"
    return "More than half of it is not malloc's"
