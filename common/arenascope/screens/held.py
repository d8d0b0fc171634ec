"""Who holds what a row shows, in words and as JSON."""

from __future__ import annotations

from typing import Mapping, Optional

from ..gather.live import Live
from ..graph.held import Holders, Most
from ..graph.owners import SHARED, UNREACHED, Owner
from ..graph.refs import Search
from ..records import NamedTuple
from .owners import whose

SEVERAL, NOBODY = "several together", "nobody"
ALL = 0.995
"""From this share on it is not told."""


class HeldBy(NamedTuple):
    """As a document has it, and in words."""

    json: Mapping[str, object]
    words: str


class Held:
    """Of one image."""

    def __init__(self, search: Search, lost: int) -> None:
        """`lost`: bytes of a process that could not be copied."""
        self._holders = Holders(search, lost)

    def block(self, user: int) -> Optional[HeldBy]:
        """A block's, by what malloc returned."""
        owner = self._holders.of(user)
        return HeldBy(_json(owner), self._words(owner)) if owner is not None else None

    def kinds(self, live: Live) -> dict[int, HeldBy]:
        """By the kind's number: whoever holds most of its blocks."""
        return {
            kind: HeldBy({**_json(most.owner), "blocks": most.blocks, "bytes": most.bytes}, self._most(most))
            for kind, most in self._holders.of_kinds(live).items()
        }

    def _most(self, most: Most) -> str:
        share = f" ({100 * most.share:.0f} %)" if most.share < ALL else ""
        return f"{self._words(most.owner)}{share}"

    def _words(self, owner: Owner) -> str:
        short = {SHARED: SEVERAL, UNREACHED: NOBODY}
        return short.get(owner.kind) or whose(self._holders.search, owner)


def _json(owner: Owner) -> dict[str, object]:
    return {"kind": owner.kind, "name": owner.name, "tid": owner.tid}
