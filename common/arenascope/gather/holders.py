"""Blocks named by their holders: a second pass, over globals, stacks and what is known already.

What a container tells is certain. A plain pointer from an object of a known class names what it points to after it:
"Session+40 body", a guess.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import deque
from itertools import accumulate, islice
from typing import Iterator, Optional, Sequence

from ..errors import MemoryReadError
from ..glibc.chunk import SIZE_BITS
from ..recognise.catalogue import NONE, Catalogue
from ..recognise.ground import Ground
from ..recognise.holders import HASHED, Body, Forms
from ..recognise.kinds import Kind
from ..recognise.names import APART
from ..recognise.nodes import LIST, TREE
from ..records import NamedTuple
from ..session import Session
from .live import Live, Typed

LARGEST = 64 << 10
"""So much of a holder is looked through."""
LONGEST_FORM = 16
"""Words of a container: one may lie across the end of what is read at once."""
GLOBALS = 64 << 20
"""So much of a module's data."""
STACK = 1 << 20
_VARIABLE = re.compile(r"([^+]+?)(?:\+\d+)?")
"""What has a symbol; without one it is a file and a hexadecimal distance."""
_SHARED = re.compile(re.escape(APART).replace(r"\{\}", "(.+)"))
WEAK = ("size", "zeros", "pointers", "text")
LINKS = {TREE: 4, LIST: 2, HASHED: 1}
"""Words in front of what a node is for."""
HOLDERS = ("c++", "control", "node")


class Place(NamedTuple):
    """A block among the pieces of a sweep."""

    piece: Typed
    index: int  # type: ignore[assignment]  # tuple.index is of no use here
    users: Sequence[int]


class Area(NamedTuple):
    """Memory in which holders lie."""

    start: int
    bytes: int
    name: Optional[str]
    """None: that of the variable there."""
    single: bool = True
    """One thing, in which every place has its meaning; in a list of them none has."""
    links: int = 0
    """So many bytes in front only link it to others."""


class Stretch(NamedTuple):
    """A piece of an area that could be read."""

    start: int
    words: Sequence[int]
    likely: Sequence[int]
    """Indices of the words that may point to blocks."""


class Index:
    """The live blocks by their addresses."""

    def __init__(self, session: Session, ground: Ground, live: Live) -> None:
        self._session = session
        self._ground = ground
        self._live = live
        self._pieces = sorted(
            (piece for heap in live.heaps for piece in heap.pieces if isinstance(piece, Typed)),
            key=lambda piece: piece.address,
        )
        self._starts = [piece.address for piece in self._pieces]
        self._users: dict[int, Sequence[int]] = {}
        self._mmapped = {block.chunk + session.layout.header: at for at, (block, _) in enumerate(live.mmapped)}

    def place(self, user: int) -> Optional[Place]:
        number = bisect_right(self._starts, user) - 1
        if number < 0:
            return None
        piece = self._pieces[number]
        if user >= piece.address + piece.bytes:
            return None
        users = self._users_of(number)
        index = bisect_right(users, user) - 1
        if index < 0 or index >= len(piece.raws) or users[index] != user or piece.kinds[index] == NONE:
            return None
        return Place(piece, index, users)

    def _users_of(self, number: int) -> Sequence[int]:
        if number not in self._users:
            piece = self._pieces[number]
            header = self._session.layout.header
            sizes = (raw & ~SIZE_BITS for raw in piece.raws)
            self._users[number] = array(
                self._session.memory.code, islice(accumulate(sizes, initial=piece.address + header), len(piece.raws))
            )
        return self._users[number]

    def kind(self, user: int) -> Optional[Kind]:
        place = self.place(user)
        if place is not None:
            return self._live.kinds[place.piece.kinds[place.index]]
        at = self._mmapped.get(user)
        return None if at is None else self._live.kinds[self._live.mmapped[at][1]]

    def put(self, user: int, kind: int) -> None:
        place = self.place(user)
        if place is not None:
            place.piece.kinds[place.index] = kind  # type: ignore[index]  # an array
        elif user in self._mmapped:
            at = self._mmapped[user]
            self._live.mmapped[at] = self._live.mmapped[at][0], kind

    def size(self, user: int) -> int:
        place = self.place(user)
        if place is not None:
            return (place.piece.raws[place.index] & ~SIZE_BITS) - self._session.layout.word
        block = self._live.mmapped[self._mmapped[user]][0]
        return block.base + block.bytes - user

    def of_kinds(self, kinds: set[int]) -> Iterator[int]:
        """The blocks that are of one of these."""
        for number, piece in enumerate(self._pieces):
            if not kinds.isdisjoint(piece.kinds):
                users = self._users_of(number)
                yield from [user for user, kind in zip(users, piece.kinds) if kind in kinds]

    # what recognise/holders.py asks

    def usable(self, user: int) -> Optional[int]:
        kind = self.kind(user)
        return self.size(user) if kind is not None and kind.kind in WEAK else None

    def words(self, address: int, count: int) -> Optional[Sequence[int]]:
        try:
            return self._session.memory.words(address, count)
        except MemoryReadError:
            return None

    def byte(self, address: int) -> Optional[int]:
        data = self._session.memory.try_read(address, 1)
        return data[0] if data else None

    def is_code(self, address: int) -> bool:
        module = self._ground.module_of(address)
        return module is not None and any(each.executable and each.contains(address) for each in module.regions)


class Naming:
    """The pass itself: each area is looked through once, and what it names may hold others."""

    def __init__(self, session: Session, catalogue: Catalogue, ground: Ground, live: Live) -> None:
        self._session = session
        self._catalogue = catalogue
        self._ground = ground
        self._live = live
        self._index = Index(session, ground, live)
        self._word = session.layout.word
        self._forms = Forms(
            self._index,
            self._word,
            big=session.memory.byte_order == "big",
            classes=any(kind.kind in ("c++", "control") for kind in live.kinds) or ground.has_cplusplus,
        )
        self._low, self._high = catalogue.low, catalogue.high
        self._left: deque[Area] = deque()
        self._names: dict[int, Optional[str]] = {}

    def run(self) -> None:
        objects = {at for at, kind in enumerate(self._live.kinds) if kind.kind in HOLDERS}
        for area in self._fixed():
            self._look(area)
        for user in self._index.of_kinds(objects):
            self._look(self._area_of(user))
            self._follow()
        self._follow()
        plain = {at for at, kind in enumerate(self._live.kinds) if kind.kind in ("c++", "control")}
        for user in self._index.of_kinds(plain):
            kind = self._index.kind(user)
            if kind is not None and kind.kind == "control":
                self._name_what_is_shared(user, kind)
        for user in self._index.of_kinds(plain):
            self._name_plainly(self._area_of(user), ("size", "zeros", "pointers"))
        for area in self._fixed(stacks=False):
            self._name_plainly(area, ("size",))

    def _follow(self) -> None:
        while self._left:
            self._look(self._left.popleft())

    def _area_of(self, user: int) -> Area:
        kind = self._index.kind(user)
        name = kind.name if kind is not None else ""
        links = LINKS.get(name, 0) * self._word
        return Area(user, min(self._index.size(user), LARGEST), name, not name.endswith("[]"), links)

    def _fixed(self, stacks: bool = True) -> Iterator[Area]:
        """Variables of modules, and what lies on stacks."""
        following = {region.start: region for region in self._session.regions if not region.path}
        for module in self._ground.modules.all:
            last = module.regions[-1]
            for region in [*module.regions, *filter(None, [following.get(last.end)])]:
                if region.writable and region.present and not region.shared:
                    yield Area(region.start, min(region.size, GLOBALS), None)
        for thread in self._session.target_threads if stacks else ():
            pointer = thread.stack_pointer
            within = [each for each in self._session.regions if pointer and each.contains(pointer)]
            if pointer and within:
                start = pointer // self._word * self._word
                yield Area(start, min(within[0].end - start, STACK), "stack", False)

    def _read(self, area: Area) -> Iterator[Stretch]:
        low, high, mask = self._low, self._high, self._session.layout.mask
        skew = self._session.layout.first_aligned(0) + self._session.layout.header
        end = area.start + area.bytes
        for start in range(area.start + area.links, end, LARGEST):
            words = self._index.words(start, min(LARGEST + LONGEST_FORM * self._word, end - start) // self._word)
            if words is not None:
                likely = [at for at, word in enumerate(words) if low <= word < high and not (word - skew) & mask]
                yield Stretch(start, words, likely)

    def _look(self, area: Area) -> None:
        for part in self._read(area):
            for body in self._forms.bodies(part.words, part.likely) if part.likely else ():
                self._take(area, part.start, body)

    def _take(self, area: Area, start: int, body: Body) -> None:
        owner = self._owner(area, start + body.offset)
        # the nodes of a hash table are as many as it says; of others the words alone tell
        certain = body.kind in ("node", "holder")
        kind = Kind(body.name, body.kind, None, certain, "its container's words", owner)
        self._index.put(body.user, self._number(kind))
        if body.inside:
            name = body.name if owner is None else f"{owner}[]"
            links = LINKS.get(body.name, 0) * self._word
            self._left.append(Area(body.user, min(body.inside, LARGEST), name, False, links))

    def _name_what_is_shared(self, user: int, kind: Kind) -> None:
        """The object of a control block that stands apart from it, where that has no other pointer."""
        shared = _SHARED.fullmatch(kind.name)
        pointers = [part.words[at] for part in self._read(self._area_of(user)) for at in part.likely]
        if shared is not None and len(pointers) == 1 and self._index.usable(pointers[0]) is not None:
            named = Kind(shared[1], "c++", kind.module, True, "its control block", None)
            self._index.put(pointers[0], self._number(named))

    def _name_plainly(self, area: Area, kinds: Sequence[str]) -> None:
        for part in self._read(area):
            for at in part.likely:
                kind = self._index.kind(part.words[at])
                if kind is not None and kind.kind in kinds:
                    owner = self._owner(area, part.start + at * self._word)
                    if owner is not None:
                        named = Kind(f"{owner} body", "holder", None, False, "what points to it", owner)
                        self._index.put(part.words[at], self._number(named))

    def _owner(self, area: Area, address: int) -> Optional[str]:
        if area.name is not None:
            return f"{area.name}+{address - area.start}" if area.single else area.name
        if address not in self._names:
            # a variable is told by its symbol alone, and an array has as many places as elements
            found = _VARIABLE.fullmatch(self._session.target.describe(address) or "")
            self._names[address] = found[1] if found else None
        return self._names[address]

    def _number(self, kind: Kind) -> int:
        number = self._catalogue.plain(kind)
        self._live.kinds = (
            [entry.kind for entry in self._catalogue.entries] if number >= len(self._live.kinds) else (self._live.kinds)
        )
        return number


def name_by_holders(session: Session, catalogue: Catalogue, live: Live) -> None:
    """Names what is not certain yet; KeyboardInterrupt, and what was named until then is."""
    Naming(session, catalogue, catalogue.ground, live).run()
