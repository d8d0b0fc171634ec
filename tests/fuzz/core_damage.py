"""The fields of a core file that its reader goes by, where they lie in the file, and what may be written over them."""

from __future__ import annotations

import random
import struct
from typing import Iterator, NamedTuple, Sequence

from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.elf.elf_file import AT_PHDR, PT_DYNAMIC, PT_NOTE, Elf, dynamic_tags
from arenascope.sources.elf.modules import DT_DEBUG, HEADER_BYTES
from arenascope.sources.memory import Memory

HEADER = (
    "type",
    "machine",
    "version",
    "entry",
    "phoff",
    "shoff",
    "flags",
    "ehsize",
    "phentsize",
    "phnum",
    "shentsize",
    "shnum",
    "shstrndx",
)
SEGMENT = {8: (4, 4, 8, 8, 8, 8, 8, 8), 4: (4,) * 8}
NOTE_WORDS = 24
"""So many words of each note's text are fields: NT_AUXV and the start of NT_FILE."""
MAX_WORDS = 64
"""Of each table in memory."""


class Field(NamedTuple):
    kind: str
    offset: int
    size: int


class Damage(NamedTuple):
    """Bytes written over, and the size that the file then has."""

    patches: list[tuple[int, bytes]]
    size: int
    words: str


def fields_of(path: str) -> list[Field]:
    with CoreImage(path) as core:
        return [*_header(core), *_segments(core), *_notes(core), *_modules(core)]


def _header(core: CoreImage) -> Iterator[Field]:
    word = core.pointer_size
    yield from (Field("ident", at, 1) for at in range(16))
    at = 16
    for name in HEADER:
        size = 4 if name in ("version", "flags") else word if name in ("entry", "phoff", "shoff") else 2
        yield Field(f"header.{name}", at, size)
        at += size


def _segments(core: CoreImage) -> Iterator[Field]:
    sizes = SEGMENT[core.pointer_size]
    for index in range(len(core.elf.segments)):
        at = core.elf._phoff + index * sum(sizes)
        for number, size in enumerate(sizes):
            yield Field(f"segment.{number}", at, size)
            at += size


def _notes(core: CoreImage) -> Iterator[Field]:
    word = core.pointer_size
    for segment in core.elf.segments:
        if segment.type != PT_NOTE:
            continue
        at, end = segment.offset, segment.offset + segment.file_size
        while at + 12 <= end:
            name, size, kind = struct.unpack(core.elf.mark + "3I", core.held.read(at, 12))
            yield from (Field("note.header", at + 4 * index, 4) for index in range(3))
            start = at + 12 + (name + 3 & -4)
            for index in range(min(size // word, NOTE_WORDS)):
                yield Field(f"note.{kind}", start + index * word, word)
            at = start + (size + 3 & -4)


def _modules(core: CoreImage) -> Iterator[Field]:
    """ELF headers and dynamic sections in memory, r_debug and the link maps."""
    word = core.pointer_size
    memory = Memory(core.read, word, core.byte_order)

    def table(kind: str, address: int, count: int) -> Iterator[Field]:
        for place in range(address, address + min(count, MAX_WORDS) * word, word):
            segment = core.segment_at(place)
            if segment is not None and place + word <= core.readable_end(segment):
                yield Field(kind, place - segment.address + segment.offset, word)

    for region in core.regions():
        if region.is_file and not region.offset:
            yield from table("module", region.start, MAX_WORDS)
    program = Elf(core.read, core.auxv[AT_PHDR] - HEADER_BYTES[word], mapped=True)
    dynamic = next(segment for segment in program.segments if segment.type == PT_DYNAMIC)
    yield from table("dynamic", program.bias + dynamic.address, dynamic.memory_size // word)
    debug = dynamic_tags(program, dynamic).get(DT_DEBUG, 0)
    yield from table("r_debug", debug, 5)
    entry = memory.try_word(debug + word)
    while entry:
        yield from table("link_map", entry, 5)
        dynamic_section = memory.word(entry + 2 * word)
        yield from table("dynamic", dynamic_section, MAX_WORDS)
        entry = memory.try_word(entry + 3 * word)


def values(rng: random.Random, size: int, old: int, others: Sequence[int]) -> int:
    """Nothing, one, the largest, the neighbours, a power of two, what another field says."""
    top = (1 << 8 * size) - 1
    return (
        rng.choice(
            (
                0,
                1,
                top,
                top - rng.randrange(16),
                top // 2 + rng.randrange(2),
                old + 1,
                old - 1,
                old + 4096,
                old - 4096,
                2 * old,
                old // 2,
                1 << rng.randrange(8 * size),
                old ^ (1 << rng.randrange(8 * size)),
                rng.randrange(256),
                rng.getrandbits(8 * size),
                rng.choice(others),
                rng.choice(others),
                rng.choice(others) + 8,
            )
        )
        & top
    )


class Damager:
    """What may be done to one core, by chance."""

    def __init__(self, data: bytes, order: str, fields: Sequence[Field]) -> None:
        self.data, self.order = data, order
        self.kinds: dict[str, list[Field]] = {}
        for field in fields:
            self.kinds.setdefault(field.kind, []).append(field)

    def value(self, field: Field) -> int:
        return int.from_bytes(self.data[field.offset : field.offset + field.size], self.order)  # type: ignore[arg-type]

    def damage(self, rng: random.Random) -> Damage:
        size, said = len(self.data), []
        if rng.random() < 0.1:
            size = rng.choice((rng.randrange(size), rng.randrange(4096), 1 << 30, 1 << 40))
            said.append(f"{size} bytes")
        patches = []
        fields = self._some(rng)
        if rng.random() < 0.25:
            # without its names, a core's modules are read from the linker's own list
            fields += self._nameless()
        for field in fields:
            others = [self.value(rng.choice(self.kinds[field.kind])) for _ in range(2)] + [len(self.data)]
            new = values(rng, field.size, self.value(field), others)
            patches.append((field.offset, new.to_bytes(field.size, self.order)))  # type: ignore[arg-type]
            said.append(f"{field.kind} at {field.offset:#x} = {new:#x}")
        return Damage([patch for patch in patches if patch[0] < size], size, "; ".join(said))

    def _some(self, rng: random.Random) -> list[Field]:
        """As often of a kind that is rare as of one that is not; sometimes all of a kind."""
        fields = [rng.choice(self.kinds[rng.choice(list(self.kinds))]) for _ in range(rng.choice((1, 1, 1, 2, 3, 8)))]
        if rng.random() < 0.05:
            fields = list(self.kinds[rng.choice(list(self.kinds))])
        return fields

    def _nameless(self) -> list[Field]:
        nt_file = self.kinds.get(f"note.{0x46494C45}", [])
        headers = [field for field in self.kinds["note.header"] if nt_file and field.offset < nt_file[0].offset]
        return headers[-1:]
