"""What points to what in a core, found unasked where that costs a second at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from ...blocks.graph.blocks import heap_spans, live_blocks
from ...blocks.pointer_finder import WORTH_IT, library
from ..framework.command import Context
from .live_copy import Looked, search_of

if TYPE_CHECKING:
    from .live_copy import Looked

UNASKED, UNASKED_BLOCKS = 128 << 20, 200_000
"""Up to so many bytes and blocks are followed."""


def looked_unasked(context: Context) -> Optional[Looked]:
    """None of a core that is larger. A document is the same for a process and its core: there it is asked for."""
    session = context.session
    if context.options.json or session.target.kind != "core" or session.target.image.redacted:
        return None
    if not session.started or session.stopped or sum(each.bytes for each in heap_spans(session)) > UNASKED:
        return None
    blocks = live_blocks(session)
    if len(blocks) > UNASKED_BLOCKS:
        return None
    # most cores that people look at are larger, and need none of it

    search = search_of(session, blocks)
    slow = search.bytes > (WORTH_IT if library(search.bytes) is None else UNASKED)
    search.unasked = True
    return None if slow else Looked(search, 0)
