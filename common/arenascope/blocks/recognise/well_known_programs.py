"""Blocks of well-known programs, by their structs' own words; each asked only where its program or library runs."""

from __future__ import annotations

import struct
from typing import Collection, Optional, Protocol, Sequence, runtime_checkable

from ...base.model import Kind
from ...glibc.chunk import SIZE_BITS
from .glib import Glib
from .jvm import Jvm
from .memcached import Memcached
from .module_memory import LoadedModules
from .nginx import Nginx
from .perl import Perl
from .php import Php
from .postgres import Postgres
from .redis import Redis
from .ruby import Ruby
from .size_fits import fits
from .sqlite import Sqlite
from .v8 import V8
from .zlib_streams import Zlib

CHUNK = Kind("obstack chunk", "holder", how="its own end, and that of the chunk before")
PROGRAMS = ("gdb", "cc1", "cc1plus", "lto1", "as", "ld", "ld.bfd", "bison")
FRONT = 16
LEAST = 256


class Obstacks:
    """The chunks of one process (struct _obstack_chunk)."""

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        program = ground.modules.program
        self.runs = program is not None and program.name in PROGRAMS

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if usable < LEAST:
            return None
        limit, before = struct.unpack_from("<2Q", head)
        if not fits(limit - user, usable) or before % FRONT:
            return None
        return CHUNK if not before or self._is_chunk(before) else None

    def _is_chunk(self, chunk: int) -> bool:
        words = self._ground.words(chunk - 8, 2)
        return words is not None and fits(words[1] - chunk, (words[0] & ~SIZE_BITS) - 8)


class Program(Protocol):
    """The structs of one program."""

    runs: bool

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        """Of a block of so many bytes; `head` is its beginning."""


@runtime_checkable
class RuntimeKeeper(Protocol):
    """A runtime whose objects keep blocks."""

    holders: Collection[str]
    """What blocks are called that are objects, or full of them."""
    apart: bool
    """Others lie in memory that it maps by itself."""
    past: Sequence[int]
    """How far into such a block they may point."""

    def kept_by(self, words: Sequence[int], at: int, usable: int) -> Optional[Kind]:
        """What a block of so many bytes is that words[at] points to."""


def programs_in(ground: LoadedModules) -> Sequence[Program]:
    if ground.memory.pointer_size != 8 or ground.memory.byte_order != "little":
        return ()
    every: Sequence[Program] = (
        Glib(ground),
        Jvm(ground),
        Memcached(ground),
        Nginx(ground),
        Obstacks(ground),
        Perl(ground),
        Php(ground),
        Postgres(ground),
        Redis(ground),
        Ruby(ground),
        Sqlite(ground),
        V8(ground),
        Zlib(ground),
    )
    return [each for each in every if each.runs]
