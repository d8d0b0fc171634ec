"""What recognisers read besides the blocks: what the modules of the process hold, from memory or from their files."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Optional, Sequence

from ...base.errors import MemoryReadError
from ...session.session import Session
from ...sources.elf.modules import Modules, modules_of
from ...sources.memory import Memory
from ...sources.target import Region, Span, Target, joined
from ..graph.memory_windows import with_constants

PAGE_SHIFT = 12
MOST_PAGES = 1 << 20
"""4 GiB of modules."""
LONGEST_STRING = 4096
PIECE = 256
RUST, RUST_WITHIN, RUST_PIECE = b"library/std/src/", 16 << 20, 1 << 20


class LoadedModules:
    """The modules of one image."""

    def __init__(self, target: Target, memory: Memory, regions: Sequence[Region]) -> None:
        self.target = target
        self.memory = memory
        self.regions = regions
        self.modules = Modules(target, modules_of(regions))
        self.constants = with_constants(memory.read, self.modules)
        self.pages: set[int] = set()
        """The numbers of the pages of modules: what does not lie there needs no second look."""
        for module in self.modules.all:
            for region in module.regions:
                first, last = region.start >> PAGE_SHIFT, region.end - 1 >> PAGE_SHIFT
                if region.readable and len(self.pages) + last - first < MOST_PAGES:
                    self.pages.update(range(first, last + 1))

    @cached_property
    def page_spans(self) -> Sequence[Span]:
        """These pages, in order."""
        return joined((page << PAGE_SHIFT, page + 1 << PAGE_SHIFT) for page in sorted(self.pages))

    @property
    def has_cplusplus(self) -> bool:
        return any(each.name.startswith(("libstdc++", "libc++")) for each in self.modules.all)

    @property
    def may_have_libcxx(self) -> bool:
        """A program that has neither library as a file may be linked with either."""
        names = [each.name for each in self.modules.all]
        return any(each.startswith("libc++") for each in names) or not any(
            each.startswith("libstdc++") for each in names
        )

    def has(self, symbol: str, *libraries: str) -> bool:
        """Whether the program exports it, or a module that has one of these words in its name."""
        return any(
            self.modules.exported(each, (symbol,))
            for each in self.modules.all
            if each is self.modules.program or any(word in each.name for word in libraries)
        )

    @property
    def has_rust(self) -> bool:
        """Whether the program has the places of Rust's own library, as its panics tell them."""
        program = self.modules.program
        regions = [each for each in program.regions if each.readable and not each.writable] if program else []
        for region in regions:
            for start in range(region.start, min(region.end, region.start + RUST_WITHIN), RUST_PIECE):
                try:
                    if RUST in self.constants.read(start, min(RUST_PIECE, region.end - start)):
                        return True
                except MemoryReadError:
                    break
        return False

    def module_name(self, address: int) -> Optional[str]:
        module = self.modules.at(address)
        return os.path.basename(module.name) if module is not None else None

    def words(self, address: int, count: int) -> Optional[tuple[int, ...]]:
        """None where they cannot be read."""
        return self.constants.try_words(address, count)

    def word(self, address: int) -> Optional[int]:
        return self.constants.try_word(address)

    def string(self, address: int, limit: int = LONGEST_STRING) -> Optional[bytes]:
        """Up to its zero byte; None where there is none."""
        text = b""
        while len(text) < limit:
            # no further than the page, as nothing says what follows it
            size = min(PIECE, (1 << PAGE_SHIFT) - (address + len(text)) % (1 << PAGE_SHIFT))
            try:
                piece = self.constants.read(address + len(text), size)
            except MemoryReadError:
                return None
            end = piece.find(b"\0")
            if end >= 0:
                return text + piece[:end]
            text += piece
        return None


def ground_of(session: Session) -> LoadedModules:
    """Made once for all that ask of one image."""
    session.asks_names = True
    if session.block_results.ground is None:
        session.block_results.ground = LoadedModules(session.target, session.memory, session.regions)
    return session.block_results.ground


SLACK = 32
"""A block has less than that to use besides what was asked for: it is rounded up, and a rest too small for another
block goes with it."""
PAGE_SLACK, MAPPED = 4096, 128 << 10
"""The same of one that malloc may have mapped by itself."""
LARGEST_PAGE = 64 << 10
"""That is a page, which some machines have as large: for structs of which the size is not all the proof."""


def fits(asked: int, usable: int, page: int = PAGE_SLACK) -> bool:
    return 0 < asked <= usable < asked + (page if usable >= MAPPED else SLACK)
