"""Which core a graph's file is of: every byte of that core counts."""

from __future__ import annotations

from array import array
from hashlib import sha256
from typing import Callable, NamedTuple, Sequence

from ...session.session import Session
from .blocks import heap_spans
from .memory_windows import Words


class Identity(NamedTuple):
    arenas: str
    """What was found of malloc."""
    file: Sequence[int]
    """What shows without reading it that a file is the same; empty where nothing does."""
    digest: Callable[[], str]
    """Of every byte."""


def found_of(session: Session) -> str:
    located = session.located
    digest = sha256(repr((session.target.pid, located.main_arena, located.libc.build_id)).encode())
    for header in session.headers:
        digest.update(session.memory.try_read(header.address, session.layout.arena.size) or b"")
    return digest.hexdigest()


def digest_of(session: Session) -> str:
    """Of what only a debugger reaches: mappings, registers, heaps."""
    digest = sha256(repr([(each.start, each.end, each.path) for each in session.regions]).encode())
    for thread in session.target.register_sets():
        digest.update(thread.general)
    words = Words(session, None)
    for span in heap_spans(session):
        for window in words.of(span.start, span.end):
            digest.update(repr(window.address).encode())
            digest.update(array(session.memory.code, window.words))
    return digest.hexdigest()
