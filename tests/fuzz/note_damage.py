"""What may be done to the notes of a file of `save`: they are unpacked, damaged, and packed again."""

from __future__ import annotations

import json
import random
import re
import struct
import zlib
from array import array
from functools import cache
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from core_damage import SEGMENT, Damage, Damager, fields_of, values
from snapshot_damage import replace_one

from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.elf.elf_file import NT_MOMENT, NT_RESIDENT, NT_SWAPPED, OWN, PT_NOTE, Note

BOMB = 64 << 20
PAGE = 4096
ODD_NAMES = (
    "\u202egpj.exe",
    "a\u2066b\u2069",
    "\u2028",
    "\x1b[2J",
    "x" * 200,
    "/\udce9",
    "\0",
    "/dev/zero",
    "[heap]",
    "",
)


@cache
def bombs() -> list[bytes]:
    pieces = (b"[", b"[],", b" ", b"\0", bytes(8) + b"\1" + bytes(7), b"\0\x10" + bytes(6), b"\xff" * 16)
    return [zlib.compress(piece * (BOMB // len(piece)), 1) for piece in pieces]


def written(notes: Sequence[Note], mark: str) -> bytes:
    """As `save` lays them out, with names of any bytes."""
    data = b""
    for owner, kind, text in notes:
        name = owner.encode() + b"\0"
        data += struct.pack(f"{mark}3I", len(name), len(text), kind)
        data += name + bytes(-len(name) % 4) + text + bytes(-len(text) % 4)
    return data


class NoteDamager:
    """What may be done to the notes of one file, by chance."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        with CoreImage(str(path)) as core:
            assert core.moment is not None
            self.mark, order = core.elf.mark, core.byte_order
            self.own = {kind: core.notes.own[kind] for kind in (NT_MOMENT, NT_RESIDENT, NT_SWAPPED)}
            places = [index for index, each in enumerate(core.elf.segments) if each.type == PT_NOTE]
            header = core.elf._phoff + places[-1] * sum(SEGMENT[core.pointer_size])
            first = core.elf.segments[places[0]]
            self.pages = [each.start for each in core.regions()]
        self.plain = Damager(self.data, order, [each for each in fields_of(str(path)) if each.kind.startswith("note")])
        # after the type, and of 64 bits the flags
        word = core.pointer_size
        self.offset_at, self.size_at = header + word, header + (32 if word == 8 else 16)
        self.word = word
        self.first = self.data[first.offset : first.offset + first.file_size]
        self.first_at = first.offset
        self.document = json.loads(zlib.decompress(self.own[NT_MOMENT]))
        self.spans = {kind: array("Q", zlib.decompress(self.own[kind])) for kind in (NT_RESIDENT, NT_SWAPPED)}

    def replaced(self, notes: Mapping[int, bytes]) -> list[tuple[int, bytes]]:
        """A new segment behind all else, which is the first patch, and a header that leads there."""
        segment = written([Note(OWN, kind, data) for kind, data in notes.items()], self.mark)
        number = struct.Struct(f"{self.mark}{'Q' if self.word == 8 else 'I'}")
        end = len(self.data)
        return [(end, segment), (self.offset_at, number.pack(end)), (self.size_at, number.pack(len(segment)))]

    def with_notes(self, path: Path, notes: Mapping[int, bytes]) -> Path:
        """The file with these instead of some of its own."""
        data = bytearray(self.data)
        for at, patch in self.replaced({**self.own, **notes}):
            data[at : at + len(patch)] = patch
        path.write_bytes(data)
        return path

    def damage(self, rng: random.Random) -> Damage:
        """What chance makes of them."""
        said: list[str] = []
        notes = {
            NT_MOMENT: self._packed(rng, self._moment(rng, said), said),
            NT_RESIDENT: self._packed(rng, self._spans(rng, NT_RESIDENT, said), said),
            NT_SWAPPED: self._packed(rng, self._spans(rng, NT_SWAPPED, said), said),
        }
        if rng.random() < 0.05:
            del notes[rng.choice(list(notes))]
        if rng.random() < 0.06:
            notes[rng.choice((NT_MOMENT, NT_RESIDENT, NT_SWAPPED))] = rng.choice(bombs())
            said.append("a bomb")
        patches = self.replaced(notes)
        end, segment = patches[0]
        if rng.random() < 0.3:
            patches += self._names(rng, said)
        if rng.random() < 0.2:
            more = self.plain.damage(rng)
            patches += [each for each in more.patches if each[0] < end]
            said.append(more.words)
        size = end + len(segment)
        if rng.random() < 0.03:
            size = rng.choice((1 << 30, 1 << 40))
        return Damage(patches, size, "; ".join(said) or "nothing")

    def _moment(self, rng: random.Random, said: list[str]) -> bytes:
        document = json.loads(json.dumps(self.document))
        ways: Sequence[Callable[[random.Random, Any], object]] = (replace_one, self._number, self._row, self._name)
        # what has another shape then comes last
        for way in sorted(rng.choices(ways, k=rng.choice((0, 1, 1, 2, 5))), key=lambda each: each is replace_one):
            way(rng, document)
            said.append(way.__name__.strip("_"))
        data = json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
        if rng.random() < 0.05:
            at = rng.randrange(len(data))
            data = data[:at] + rng.randbytes(rng.choice((0, 1, 4))) + data[at + rng.choice((0, 1)) :]
            said.append(f"bytes at {at}")
        return data

    def _number(self, rng: random.Random, document: dict[str, Any]) -> None:
        """One number of a row for another."""
        rows = [row for key in ("mappings", "locked", "epoll", "timers", "threads") for row in document.get(key) or ()]
        rows += [row for spans in document.get("shared") or () for row in spans]
        row = rng.choice([each for each in rows if isinstance(each, list)] or [[0]])
        places = [at for at, value in enumerate(row) if type(value) is int] or [0]
        at = rng.choice(places)
        row[at] = values(rng, 8, row[at] if isinstance(row[at], int) else 0, [*self.pages, len(self.data)])

    def _row(self, rng: random.Random, document: dict[str, Any]) -> None:
        """Rows twice, in another order, over each other, beyond all bounds."""
        name = rng.choice(("mappings", "mappings", "locked", "epoll", "timers", "threads", "shared"))
        rows = document.get(name)
        if not isinstance(rows, list):
            return
        far = rng.randrange(1 << 47)
        new = {
            "mappings": [far, far + (1 << rng.randrange(12, 46)), "rw", 0, rng.choice(ODD_NAMES), PAGE, 0, 0],
            "threads": [rng.randrange(1 << 22), rng.choice(ODD_NAMES)],
            "shared": [[far, far + PAGE]],
            "epoll": [3, 4, far],
        }.get(name, [far, far + PAGE])
        how = rng.randrange(6)
        if how == 0:
            rows += [list(new) for _ in range(rng.choice((1, 1000, 60000)))]
        elif how == 1:
            rng.shuffle(rows)
        elif how == 2 and rows:
            rows.insert(rng.randrange(len(rows)), rng.choice(rows))
        elif how == 3:
            rows[:] = [new]
        elif how == 4 and rows and name == "mappings":
            # up to the next one, or beyond it
            at = rng.randrange(len(rows))
            after = rows[at + 1 :]
            if isinstance(rows[at], list) and len(rows[at]) > 1 and after and isinstance(after[0], list) and after[0]:
                rows[at][1] = rng.choice((after[0][0], (1 << 47) - PAGE, 1 << 64))
        else:
            place = sorted([*(each for each in rows if isinstance(each, list)), new], key=str)
            rows[:] = place

    def _name(self, rng: random.Random, document: dict[str, Any]) -> None:
        rows = [*(document.get("mappings") or ()), *(document.get("threads") or ())]
        row = rng.choice([each for each in rows if isinstance(each, list) and len(each) > 1] or [[0, 0]])
        row[4 if len(row) > 4 else 1] = rng.choice(ODD_NAMES)

    def _spans(self, rng: random.Random, kind: int, said: list[str]) -> bytes:
        words = array("Q", self.spans[kind])
        how = rng.random()
        if how < 0.5:
            return words.tobytes()
        said.append(f"ranges of note {kind}")
        if how < 0.6:
            del words[rng.randrange(len(words) + 1) :]
        elif how < 0.7:
            few = array("Q", (rng.choice((0, 1, PAGE, 1 << 40)), rng.choice((0, 1, PAGE, 1 << 40))))
            return (few * rng.choice((1, 1000, 1 << 20))).tobytes()
        else:
            for _ in range(rng.choice((1, 1, 4))):
                at = rng.randrange(len(words)) if words else 0
                words[at : at + 1] = array("Q", [values(rng, 8, words[at] if words else 0, self.pages)])
        return words.tobytes()[: rng.choice((None, None, None, None, -1, -8))]

    def _packed(self, rng: random.Random, data: bytes, said: list[str]) -> bytes:
        packed = bytearray(zlib.compress(data, 1))
        how = rng.random()
        if how < 0.03:
            packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
        elif how < 0.05:
            del packed[rng.randrange(len(packed)) :]
        elif how < 0.06:
            packed += b"x"
        if how < 0.06:
            said.append("the packed bytes")
        return bytes(packed)

    def _names(self, rng: random.Random, said: list[str]) -> list[tuple[int, bytes]]:
        """Of files and of the program, in the notes that every core has."""
        places = [match.start() for match in re.finditer(rb"[\w./-]{6,}", self.first)]
        new = rng.choice(("\u202e", "\u2066", "\ufeff", "\x1b[", "\n")).encode()
        said.append(f"{new!r} in names")
        return [(self.first_at + at, new) for at in rng.sample(places, min(len(places), rng.choice((1, 3, 20))))]
