"""What must hold of a command's answer, whatever the image is like."""

from __future__ import annotations

import contextlib
import json
import random
import signal
from types import FrameType
from typing import Any, Iterator, Optional, Sequence

from damaged import Endless, Wound
from images import Image
from schemas import valid

from arenascope.base.errors import ArenascopeError
from arenascope.commands.all_commands import COMMAND_NAMES, find_command
from arenascope.commands.framework.command import execute

SECONDS = 30
"""Of processor time, for one command."""
READS, BYTES = 200_000, 1 << 30
FACTOR = 30
"""A damaged heap is looked at more often than a whole one: for another layout, or for where chunks go on."""
FIGURES = ("system_bytes", "fast", "bins", "top_bytes", "tcache", "used_bytes")
NAMES = tuple(name for name in COMMAND_NAMES if name not in ("snapshot", "save", "diff", "trend"))
"""Those that look at nothing but the image."""
FREE_OF_REDUNDANCY = ("arena.fastbinsY", "chunk.fast.fd")
"""Fields whose value nothing else in memory tells, so that what they say is the truth: fast chunks look used, and
nothing counts them."""
SEEN_BY_CHECK = ("chunk.free.size",)
"""Fields that walks take as malloc_info does, within what their list allows: `check` holds them against neighbours."""


class Failure(AssertionError):
    """What went wrong, and with what."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: Optional[FrameType]) -> None:
        raise Endless(f"{seconds} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def one_run(images: Sequence[Image], seed: str) -> None:
    """One image, one wound, one command; the same for the same seed."""
    rng = random.Random(seed)
    image = rng.choice(images)
    wound = image.wound(rng)
    name = rng.choice((*NAMES, *["arenas"] * (len(NAMES) // 2)))
    words = [*image.words(name, rng), *(["--json"] if name == "arenas" or rng.random() < 0.5 else [])]
    what = f"run {seed}: {name} {' '.join(words)} on {image.name}; {wound}"
    text = answer(image, wound, rng, name, words, what)
    if text is None:
        return
    if "--json" in words:
        document = document_of(text, what)
        if name == "arenas":
            check_totals(image, wound, document, what)


def answer(image: Image, wound: Wound, rng: random.Random, name: str, words: list[str], what: str) -> Optional[str]:
    """The command's output; None where it refused in so many words."""
    reads, size = image.need(name)
    door = image.door(wound, rng, FACTOR * reads + READS, FACTOR * size + BYTES)
    try:
        with time_limit(SECONDS):
            execute(find_command(name), words, door)
    except ArenascopeError as error:
        if not error.message:
            raise Failure(f"{what}: an error that says nothing") from error
        return None
    except Endless as error:
        raise Failure(f"{what}: {error}") from error
    except Exception as error:
        raise Failure(f"{what}: {type(error).__name__}: {error}") from error
    return "".join(door.written)


def document_of(text: str, what: str) -> dict[str, Any]:
    """As its schema says, and complete where it names no problem."""
    try:
        return valid(json.loads(text))
    except AssertionError as error:
        raise Failure(f"{what}: {error}") from error


def check_totals(image: Image, wound: Wound, found: dict[str, Any], what: str) -> None:
    """What is shown as complete is what the whole image holds."""
    if not found["complete"] or any(label in FREE_OF_REDUNDANCY for label in wound.labels):
        return
    if "arena.next" in wound.labels and _is_shorter_ring(image, found):
        return
    for name in FIGURES:
        told, true = found["totals"][name], image.figures["totals"][name]
        if told != true:
            if any(label in SEEN_BY_CHECK for label in wound.labels) and not _is_sound(image, wound, what):
                return
            raise Failure(f"{what}: {name} is {told}, but {true} in the whole image")


def _is_shorter_ring(image: Image, found: dict[str, Any]) -> bool:
    """A link that leads to a later arena of the ring: nothing tells of one between that no thread is attached to."""
    true = {arena["address"]: arena for arena in image.figures["arenas"]}
    left_out = true.keys() - {arena["address"] for arena in found["arenas"]}
    same = all(
        arena["address"] in true and arena[name] == true[arena["address"]][name]
        for arena in found["arenas"]
        for name in FIGURES
    )
    return same and bool(left_out) and not any(true[address]["threads"] for address in left_out)


def _is_sound(image: Image, wound: Wound, what: str) -> bool:
    text = answer(image, wound, random.Random(0), "check", ["--json"], what)
    return text is not None and not document_of(text, what)["breaches"]
