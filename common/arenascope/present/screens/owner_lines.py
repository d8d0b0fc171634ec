"""The text of `heap owners`: who holds memory."""

from __future__ import annotations

from typing import Annotated, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...analysis.compare_snapshots import NAMELESS
from ...analysis.held_sums import HeldSums, is_unnamed
from ...base.class_names import type_words
from ...base.heap_model import Kind, Owner, Statement
from ...base.printable import UserData
from ...blocks.block_index import NamedLiveBlocks
from ...blocks.graph.blocks import OwnerPages
from ...blocks.graph.holders import Holders, Most, Paths, TypeCost, WrittenPath
from ...blocks.graph.main_holders import UNREACHED, Holding, OtherHolders, OwnersBlocks
from ...blocks.graph.pointers_to import ImageSearch
from ...blocks.graph.returns import HeldPages
from ..json_documents.record import Address, Record, Size
from ..json_documents.shared_records import WRITTEN, HolderOfMost, OwnerRecord, RootRecord
from ..shared_text.lines_and_tables import (
    UNKNOWN,
    Column,
    Style,
    column_table,
    count,
    folded_name,
    held_size,
    in_memory,
    left_out,
    marked,
    next_lines,
    say,
    unmarked,
    with_verb,
    worth_a_row,
)
from ..shared_text.missing_symbols import symbols_command
from .pointer_lines import STALE_WORDS, of_thread
from .type_lines import A_GUESS, name_of

NOBODY, NOTHING = "nobody", "no plain pointer"
"""NOTHING is shown in place of NOBODY if encoded pointers were not searched for."""
NO_SUM = "holds: the rows add up to all blocks in use; alone: the part that no other owner leads to"
RETURNS = (
    "would return: what malloc_trim(0) returns once the part in column alone is freed: less than that part where "
    "blocks of other owners lie on the same pages, more where free memory does"
)
UNDER = "mostly under: the block that leads to most of it"
TIES = "as near: the part that another owner leads to in as few steps as the main holder"
STEPS = 3
"""How many blocks of a way are named."""
TYPES = 5
"""How many types of each owner are shown."""
WITH_THEIRS = "all of them, average, largest: with all that only each block leads to, so rows overlap"
ONE_IN_MUCH = 10
"""What several owners lead to is mentioned if it is at least a tenth of all bytes."""
FEW, FIRST = 3, 1
"""How many joint owners are named: in a sentence, and in a row."""


class OtherHoldersRecord(Record):
    """Owners that also lead to what an owner does not hold alone."""

    owners: Sequence[RootRecord]
    """Whoever leads to a hundredth of that or more, the most first."""
    whole: bool
    """These are all of those; else others lead there as well."""


class PathStep(Record):
    """A block on the way."""

    block: Address
    """What malloc returned."""
    type: str
    """What it is."""
    retained_bytes: Size
    """It and all blocks that only it leads to."""
    blocks: Size
    """How many blocks that are."""
    expression: Annotated[Optional[str], WRITTEN]


class TypeCostRecord(Record):
    """All blocks of a type that one owner holds, and their cost."""

    type: str
    """What they are."""
    certain: bool
    """False for a guess."""
    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes."""
    retained_bytes: Size
    """With all that each alone leads to, down to the next of the same type; what several types lead to, one below the
    other, counts with each of these."""
    largest_bytes: Size
    """What the one of them takes that takes most, with that."""
    largest: Address
    """What malloc returned for that one."""


class OwnerRow(OwnerRecord):
    """An owner with what it holds: it is the main holder of these blocks."""

    type: Optional[str]
    """The type of the last block on `path`; null: `path` is empty."""
    held_bytes: Size
    """What it is the main holder of."""
    blocks: Size
    """How many blocks that are."""
    retained_bytes: Size
    """What of that it alone leads to (on screens: alone): what could be freed were it cleared."""
    retained_blocks: Size
    """How many blocks that are."""
    retained_resident_bytes: Optional[Size]
    """What of that is in memory."""
    returns_bytes: Optional[Size]
    """Pages on which nothing else is: malloc_trim(0) gives them back then."""
    tied_bytes: Size
    """What of held_bytes another owner leads to equally well."""
    leading: Optional[OtherHoldersRecord]
    """Who leads to what of held_bytes it does not hold alone; null: it holds all."""
    also_reached_from: Sequence[RootRecord]
    """Those of `leading` who are as good holders: each leads to nine tenths of held_bytes or more."""
    path: Sequence[PathStep]
    """Down to where it spreads: blocks on which most of what the one before has hangs."""
    by_type: Optional[Sequence[TypeCostRecord]]
    """What its blocks cost, by what they are, the most first; null without --by type."""
    matching_blocks: Optional[Size] = None
    """With --where: how many of its blocks have an object for which the condition holds."""
    matching_bytes: Optional[Size] = None
    """With --where: their bytes."""


class MainHolderRecord(RootRecord):
    """A main holder."""

    held_bytes: Size
    """What it is the main holder of."""
    retained_bytes: Size
    """What of that it alone leads to."""


class JointHoldersRecord(Record):
    """Owners that lead to something together."""

    owners: Sequence[RootRecord]
    """Who they are."""
    retained_bytes: Size
    """What all of them lead to, and nobody else."""


class FreedNextRecord(Record):
    """The owner to free next."""

    owners: Sequence[RootRecord]
    """Who they are; none: nobody."""
    retained_bytes: Size
    """What only they lead to."""
    alone_bytes: Size
    """What leaves memory if only that is freed, and malloc_trim(0) called."""
    returns_bytes: Size
    """What does in all, with those before: pages that they share among it."""
    holds_up_bytes: Size
    """What stays if all the others are freed, and only that is not."""


class LiveBlockSums(Record):
    """All live blocks, by what leads to them."""

    live_bytes: Size
    """All live blocks."""
    reached_bytes: Size
    """What variables, threads, other mappings or the kernel lead to."""
    perhaps_lost_bytes: Size
    """The part of that to which nothing but unused room of containers leads."""
    cycle_bytes: Size
    """What nothing but cycles of Python's objects leads to: part of what is reached, and objects in Python's own
    pools."""
    possible_bytes: Size
    """What only pointers to insides lead to."""
    lost_bytes: Size
    """What nothing leads to."""
    lost_blocks: Size
    """How many blocks that are."""
    unknown_bytes: Size
    """What nothing leads to in an image that lacks some of what might."""
    owners: Sequence[MainHolderRecord]
    """The three that hold most, as in owners."""
    jointly: Sequence[JointHoldersRecord]
    """Those that together lead to most, which is among what they hold: each of them leads there, and nobody else
    does."""
    in_turn: Sequence[FreedNextRecord]
    """All of these, freed one after the other, whoever brings most first, then what nobody holds; empty: that is not
    known."""


class OwnersScreen:
    def __init__(self, search: ImageSearch, owned: HeldPages, types: Mapping[int, Kind], paths: Paths) -> None:
        """`types`: the types of the blocks on the owners' ways."""
        self.search, self._types, self._paths = search, types, paths
        self.owners, self.kept = owned
        self.costs: Optional[Mapping[int, Sequence[TypeCost]]] = None
        """Costs by type, by the holding's number; None if nobody asked for them."""
        self.matches: Optional[Mapping[int, OwnersBlocks]] = None
        """The blocks that match a condition, by the holding's number; None if nobody asked for them."""
        self.notes: Sequence[Statement] = ()
        """One statement for each file that lacks symbols."""
        self.python: Sequence[Statement] = ()
        """What holds most of CPython's objects."""

    def kept_by(self, holding: Holding) -> Optional[OwnerPages]:
        return self.kept[holding.number] if self.kept is not None else None

    def words(self, holding: Holding) -> str:
        return whose(self.search, holding.owner)

    def plain_words(self, holding: Holding) -> str:
        """The owner in words, without marks: for other programs, and where the name stands by itself."""
        return unmarked(self.words(holding))

    def types_of(self, holding: Holding) -> list[str]:
        """Types of the blocks on the way down to where what it holds spreads."""
        return [self._types[step.block].name for step in holding.way]

    def spreads_at(self, holding: Holding) -> str:
        """The block where what it holds spreads, with the path to it, or else the types on the way."""
        way = [each.block for each in holding.way]
        if not way:
            return ""
        types, path = [*map(type_words, self.types_of(holding))], self._paths.held(holding.owner, way[-1])
        place = f"{self.search.blocks.starts[way[-1]]:#x}"
        return f"{place} {' → '.join(types[-STEPS:])}" if path is None else f"{place} {path.on_screen} ({types[-1]})"

    def record(self, holding: Holding) -> OwnerRow:
        kept, owner = self.kept_by(holding), holding.owner
        leading, starts = holding.leading, self.search.blocks.starts
        return OwnerRow.of(
            owner,
            kept,
            holding,
            type=next(reversed(self.types_of(holding)), None),
            held_bytes=holding.bytes,
            retained_bytes=holding.alone_bytes,
            retained_blocks=holding.alone_blocks,
            retained_resident_bytes=kept and kept.resident,
            leading=leading and OtherHoldersRecord.of(leading, owners=roots(leading.owners)),
            also_reached_from=roots(holding.as_good),
            path=[
                PathStep.of(
                    each,
                    block=starts[each.block],
                    type=self._types[each.block].name,
                    retained_bytes=each.bytes,
                    expression=path and path.in_documents,
                )
                for each in holding.way
                for path in (self._paths.held(owner, each.block),)
            ],
            by_type=None if self.costs is None else [self._cost(each) for each in self.costs.get(holding.number, ())],
            **self._matching(holding),
        )

    def _matching(self, holding: Holding) -> dict[str, object]:
        if self.matches is None:
            return {}
        matching = self.matches[holding.number]
        return {"matching_blocks": matching.blocks, "matching_bytes": matching.bytes}

    def way_to(self, owner: Owner, block: int) -> str:
        """The path to a block in the program's own words; "": there is none."""
        path = self._paths.held(owner, block)
        return path.on_screen if path is not None else ""

    def _cost(self, cost: TypeCost) -> TypeCostRecord:
        largest = self.search.blocks.starts[cost.largest]
        return TypeCostRecord.of(cost, cost.kind, type=cost.kind.name, largest=largest)


def whose(search: ImageSearch, owner: Owner) -> str:
    """The owner in words, and why its words are stale if they are."""
    return f"{_who(search, owner)}{f' ({STALE_WORDS[owner.stale]})' if owner.stale is not None else ''}"


def _who(search: ImageSearch, owner: Owner) -> str:
    if owner.kind == UNREACHED:
        return f"{nobody(search)} (see leaks)"
    if owner.is_local and owner.tid == search.names.main_thread:
        # the path to a block begins with the same name
        return marked(owner.name or "")
    thread = of_thread(search.names, owner.tid)
    if owner.kind == "stack":
        return f"{marked(owner.name) if owner.name else 'stack'}{thread}"
    if owner.kind == "register":
        return f"{owner.name or 'registers'}{thread}"
    if owner.kind == "runtime":
        return f"heap of {owner.name}"
    if owner.kind == "mapping":
        return f"mapping {owner.name}"
    if owner.kind == "tls":
        return f"{marked(owner.name) if owner.name else 'variables'}{thread}"
    if not owner.name:
        return NAMELESS
    return owner.name if is_unnamed(owner.name) else marked(owner.name)


def nobody(search: ImageSearch) -> str:
    """The owner of blocks that no pointer was found to."""
    return NOBODY if search.second_look is not None else NOTHING


def together(search: ImageSearch, leading: OtherHolders, few: int = FEW) -> str:
    """The first joint owners, `few` at most, and how many more there are."""
    names = [whose(search, each) for each in leading.owners]
    if leading.whole and len(names) <= few:
        return listed(names)
    named = names[: max(1, few - 1)]
    more = f"{len(names) - len(named)} more" if leading.whole and len(names) > len(named) else "others"
    return listed([*named, more])


def also_reached_from(shown: OwnersScreen, holding: Holding, few: int = FEW) -> str:
    """Other owners who are as good holders."""
    return f"also reached from {together(shown.search, OtherHolders(holding.as_good, whole=True), few)}"


def listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def summary(style: Style, shown: OwnersScreen, resident: Optional[int] = None) -> str:
    """The answer in a sentence. `resident`: upper bound of the blocks' bytes in memory."""
    blocks, largest = shown.search.blocks, _largest(shown)
    said = f"{style.size(blocks.bytes)} in use in {count(len(blocks), 'block')}"
    said += in_memory(style, blocks.bytes, resident, "at most ")
    if largest is None:
        return said
    much, of = held_size(style, largest.bytes, largest.alone_bytes), ""
    lost = _lost(shown)
    if lost is not None and lost.bytes > largest.bytes:
        leads = "nothing leads" if nobody(shown.search) == NOBODY else "no plain pointer leads"
        said, of = f"{said}; {leads} to {style.size(lost.bytes)} of it", " of the rest"
    said += f"; {with_verb(shown.words(largest), 'hold')} most{of}, {much}"
    return f"{said}, {also_reached_from(shown, largest)}" if largest.as_good else said + _most_jointly(style, shown)


def _most_jointly(style: Style, shown: OwnersScreen) -> str:
    most = next(iter(shown.owners.jointly), None)
    if most is None or ONE_IN_MUCH * most.bytes < shown.search.blocks.bytes:
        return ""
    names = together(shown.search, OtherHolders(most.owners, whole=True))
    return f"; {names} lead to {style.size(most.bytes)} together"


def _largest(shown: OwnersScreen) -> Optional[Holding]:
    return next((each for each in shown.owners.holdings if each.owner.kind != UNREACHED), None)


def _lost(shown: OwnersScreen) -> Optional[Holding]:
    return next((each for each in shown.owners.holdings if each.owner.kind == UNREACHED), None)


def lines(style: Style, shown: OwnersScreen, limit: int) -> Iterator[str]:
    blocks, holdings, largest, matches = shown.search.blocks, shown.owners.holdings, _largest(shown), shown.matches
    lost = _lost(shown)
    sizes = [each.bytes if matches is None else matches[each.number].bytes for each in holdings]
    shows = worth_a_row(sizes, blocks.bytes if matches is None else sum(sizes), limit)
    # keep the row of what nobody holds, however small: it may be lost
    own = [*holdings[:shows], *(each for each in holdings[shows:] if each is lost)]
    folded = [each for each in holdings[shows:] if each is not lost]
    columns = (
        Column("whose", shown.words, name=True),
        Column("matching", lambda each: matches and f"{matches[each.number].blocks:,}", optional=True),
        Column("their bytes", lambda each: matches and style.size(matches[each.number].bytes), optional=True),
        Column("holds", lambda each: style.size(each.bytes)),
        Column("alone", lambda each: style.size(each.alone_bytes)),
        Column("would return", lambda each: style.size(_returns(shown.kept_by(each)))),
        Column("blocks", lambda each: f"{each.blocks:,}"),
        Column("mostly under", shown.spreads_at, name=True, optional=True),
        Column(
            "as near",
            lambda each: ONE_IN_MUCH * each.tied_bytes >= each.bytes and style.size(each.tied_bytes),
            optional=True,
        ),
        Column("shared with", lambda each: _shared_with(shown, each), name=True, optional=True),
    )
    below = [_folded(style, folded, matches)] if folded else ()
    expendable = ("as near", "shared with", "blocks", "alone", "would return")
    table_lines = column_table(style, columns, own, below=below, expendable=expendable)
    headers = next(table_lines, "")
    yield from (headers, *table_lines)
    if len(holdings) > 1 and "alone" in headers:
        yield style.dim(NO_SUM)
    for title, words in (("would return", RETURNS), ("mostly under", UNDER), ("as near", TIES)):
        if title in headers:
            yield style.dim(words)
    yield from (python_text(style, each) for each in shown.python)
    yield ""
    way = largest.way[-1:] if largest is not None else ()
    typed = [style.typed(f"refs {blocks.starts[each.block]:#x}") for each in way]
    typed += [style.typed("leaks")] if lost is not None else []
    typed += [style.typed("containers")] if shown.python else []
    yield from next_lines(style, *_symbols(style, shown, own), *typed, style.typed("types"))


def python_text(style: Style, said: Statement) -> str:
    """What holds Python's objects."""
    size = style.size(int(said.figures["held_bytes"] or 0))
    if said.id == "python-cycles":
        return f"of Python's objects: nothing but cycles leads to {size} (see waste)"
    elements = count(int(said.figures["elements"] or 0), "element")
    return f"of Python's objects: {said.names['path']} ({said.names['type']}) holds {size} in {elements}"


def _symbols(style: Style, shown: OwnersScreen, rows: Sequence[Holding]) -> list[str]:
    """Commands that bring symbols for files in these rows, if their variables hold much."""
    least = shown.search.blocks.bytes / ONE_IN_MUCH
    names = {each.owner.name for each in rows if each.bytes >= least}
    return [
        symbols_command(each, style, f"names the variables of {each.names['module']}")
        for each in shown.notes
        if each.names["owner"] in names
    ]


def lines_by_type(style: Style, shown: OwnersScreen, limit: int) -> Iterator[str]:
    """What one block of each type costs, grouped by owner."""
    blocks, holdings, costs = shown.search.blocks, shown.owners.holdings, shown.costs or {}
    rows, more = [], 0
    for holding in holdings[: worth_a_row([each.bytes for each in holdings], blocks.bytes, limit)]:
        own = costs.get(holding.number, ())
        few = own[:TYPES] if limit > 0 else own
        rows += [(each, holding, each is own[0]) for each in few]
        more += len(own) - len(few)

    def largest(row: tuple[TypeCost, Holding, bool]) -> str:
        at, block = blocks.starts[row[0].largest], shown.way_to(row[1].owner, row[0].largest)
        return f"{at:#x} {block}".rstrip()

    columns = (
        # only an owner's first row names it
        Column("whose", lambda row: row[2] and shown.words(row[1]), name=True),
        Column("type", lambda row: name_of(row[0].kind), name=True),
        Column("count", lambda row: f"{row[0].blocks:,}"),
        Column("all of them", lambda row: style.size(row[0].retained_bytes)),
        Column("average", lambda row: style.size(row[0].retained_bytes // row[0].blocks)),
        Column("largest", lambda row: style.size(row[0].largest_bytes)),
        Column("the largest is", largest, name=True),
    )
    yield from column_table(style, columns, rows, expendable=("average", "the largest is", "largest"))
    yield from left_out(style, more, "type")
    if rows:
        yield style.dim(WITH_THEIRS)
    if any(not cost.kind.certain for cost, *_ in rows):
        yield style.dim(A_GUESS)
    yield ""
    typed = [style.typed(f"owner {blocks.starts[cost.largest]:#x}") for cost, *_ in rows[:1]]
    yield from next_lines(style, *typed, style.typed("owners"))


def _folded(style: Style, holdings: Sequence[Holding], matches: Optional[Mapping[int, OwnersBlocks]]) -> list[str]:
    """The row that stands for all owners without a row of their own."""
    matching = ["", ""]
    if matches is not None:
        own = [matches[each.number] for each in holdings]
        matching = [f"{sum(each.blocks for each in own):,}", style.size(sum(each.bytes for each in own))]
    alone, blocks = sum(each.alone_bytes for each in holdings), sum(each.blocks for each in holdings)
    sizes = [style.size(sum(each.bytes for each in holdings)), style.size(alone), UNKNOWN]
    return [folded_name(len(holdings), "owner"), *matching, *sizes, f"{blocks:,}", "", "", ""]


def _returns(kept: Optional[OwnerPages]) -> Optional[int]:
    return kept and kept.returns


def _shared_with(shown: OwnersScreen, holding: Holding) -> str:
    if holding.as_good:
        return also_reached_from(shown, holding, FIRST)
    return together(shown.search, holding.leading, FIRST) if holding.leading is not None else ""


class HeldBy(NamedTuple):
    """Who holds a block, as JSON and in words."""

    owner: OwnerRecord
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
        return HeldBy(OwnerRecord.of(owner), self._words(owner), path)

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
        return f", {say(most.bytes)}" if 2 * most.blocks < most.of else ""

    def _words(self, owner: Owner) -> str:
        search = self._holders.search
        return nobody(search) if owner.kind == UNREACHED else whose(search, owner)


def roots(owners: Sequence[Owner]) -> list[RootRecord]:
    return [RootRecord.of(each) for each in owners]


def sums_of(held: HeldSums) -> LiveBlockSums:
    """The JSON record of a report's sums."""
    return LiveBlockSums.of(
        held,
        perhaps_lost_bytes=held.perhaps,
        cycle_bytes=held.cycles,
        owners=[
            MainHolderRecord.of(each.owner, held_bytes=each.bytes, retained_bytes=each.alone) for each in held.first
        ],
        jointly=[
            JointHoldersRecord.of(each, owners=roots(each.owners), retained_bytes=each.bytes) for each in held.jointly
        ],
        in_turn=[
            FreedNextRecord.of(each, owners=roots(each.owners), retained_bytes=each.bytes) for each in held.in_turn
        ],
    )
