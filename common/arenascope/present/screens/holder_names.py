"""Main holders of blocks and types, in words and as JSON."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence

from ...analysis.report_holders import HeldSums, Holder
from ...base.printable import UserData
from ...blocks.declared.paths import Paths, WrittenPath
from ...blocks.graph.holders import Holders, Most
from ...blocks.graph.leads import Owner
from ...blocks.graph.owners import UNREACHED
from ...blocks.graph.refs import ImageSearch
from ...blocks.live_blocks import NamedLiveBlocks
from ..json_documents import block_records as records
from ..json_documents.block_records import HolderOfMost
from ..json_documents.process_records import FreedNextRecord, JointHoldersRecord, LiveBlockSums, MainHolderRecord
from ..shared_text.text import Style
from .owners import nobody, whose


class HeldBy(NamedTuple):
    """Who holds a block, as JSON and in words."""

    owner: records.OwnerRecord
    words: str
    path: Optional[WrittenPath]

    @property
    def who(self) -> str:
        """The holder as documents and pages have it."""
        return self.path.in_documents if self.path is not None else self.words

    @property
    def on_screen(self) -> str:
        return self.path.on_screen if self.path is not None else self.words


class HeldMost(NamedTuple):
    """Who holds most blocks of a type."""

    owner: HolderOfMost
    words: str
    who: str
    """The owner's words without how many blocks it holds."""


class HolderNames:
    """Finds and names the holders in one image."""

    def __init__(self, search: ImageSearch, lost: int, user_data: UserData) -> None:
        """`lost`: bytes of a process that could not be copied."""
        self._holders, self._paths = Holders(search, lost), Paths(search, user_data)

    def block(self, user: int) -> Optional[HeldBy]:
        """Who holds a block. `user`: the address that malloc returned."""
        owner = self._holders.of(user)
        if owner is None:
            return None
        path = self._paths.held(owner, self._holders.search.blocks.find(user))
        return HeldBy(records.OwnerRecord.of(owner), self._words(owner), path)

    def kinds(self, live: NamedLiveBlocks) -> dict[int, HeldMost]:
        """The owner that holds most of a type's blocks, by the type's number."""
        return {kind: self._most(most) for kind, most in self._holders.of_kinds(live).items()}

    def retained(self, live: NamedLiveBlocks) -> Mapping[int, int]:
        """Bytes of a type's blocks and of all that only they lead to, by the type's number."""
        return self._holders.retained(live)

    def _most(self, most: Most) -> HeldMost:
        part = f" ({most.blocks:,} of {most.of:,}{self._how_much(most)})" if most.blocks < most.of else ""
        who = self._words(most.owner)
        owner = HolderOfMost.of(most.owner, blocks=most.blocks, bytes=most.bytes)
        return HeldMost(owner, f"{who}{part}", who)

    def _how_much(self, most: Most) -> str:
        """The bytes, if fewer than half of the blocks have most of them."""
        return f", {Style().size(most.bytes)}" if 2 * most.blocks < most.of else ""

    def _words(self, owner: Owner) -> str:
        search = self._holders.search
        return nobody(search) if owner.kind == UNREACHED else whose(search, owner)


def sums_of(held: HeldSums) -> LiveBlockSums:
    """The JSON record of a report's sums."""

    def roots(owners: Sequence[Holder]) -> list[records.RootRecord]:
        return [records.RootRecord.of(each) for each in owners]

    return LiveBlockSums.of(
        held,
        owners=[MainHolderRecord.of(each, held_bytes=each.bytes, retained_bytes=each.alone) for each in held.first],
        jointly=[
            JointHoldersRecord.of(each, owners=roots(each.owners), retained_bytes=each.bytes) for each in held.jointly
        ],
        in_turn=[
            FreedNextRecord.of(each, owners=roots(each.owners), retained_bytes=each.bytes) for each in held.in_turn
        ],
    )
