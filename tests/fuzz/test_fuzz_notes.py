"""Files of `save` by chance: what their notes say, packed again after it was changed, and bombs in place of it.

A short run among all tests, a long one by `make fuzz` (forked.py).
"""

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

import pytest
from forked import Failure, Run, fuzz, fuzz_many, run_all, seeds
from marks import full_after
from shell_door import typed
from subjects import Subject
from test_fuzz_files import NAMES, RAW, SEGMENT, Damage, Damager, check, fields_of, replace_one, values
from test_hostile_files import appended, load

from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.elf.elf_file import NT_MOMENT, NT_RESIDENT, NT_SWAPPED, OWN, PT_NOTE, Note

BOMB = 64 << 20
PAGE = 4096
ROWS = ("mappings", "locked", "epoll", "timers", "threads")
"""What of a note is a list of rows."""
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
        rows = [row for key in ROWS for row in document[key] or ()]
        rows += [row for spans in document["shared"] or () for row in spans]
        row = rng.choice(rows or [[0]])
        at = rng.choice([at for at, value in enumerate(row) if type(value) is int] or [0])
        row[at] = values(rng, 8, row[at] if isinstance(row[at], int) else 0, [*self.pages, len(self.data)])

    def _row(self, rng: random.Random, document: dict[str, Any]) -> None:
        """A row again and again, rows in another order, over each other, beyond all bounds."""
        rows = document[rng.choice(ROWS)]
        if not rows:
            return
        how = rng.randrange(4)
        if how == 0:
            rows += [list(rng.choice(rows)) for _ in range(rng.choice((1, 1000, 60000)))]
        elif how == 1:
            rng.shuffle(rows)
        elif how == 2:
            far = rng.randrange(1 << 47)
            rows[rng.randrange(len(rows))][:2] = [far, far + (1 << rng.randrange(12, 46))]
        else:
            # up to the next one, or beyond it
            at = rng.randrange(len(rows))
            rows[at][1] = rng.choice((rows[(at + 1) % len(rows)][0], (1 << 47) - PAGE, 1 << 64))

    def _name(self, rng: random.Random, document: dict[str, Any]) -> None:
        row = rng.choice([*document["mappings"], *document["threads"]])
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


pytestmark = pytest.mark.xdist_group("fuzz notes")

SHORT = 240
ASKED = (
    *((name,) for name in NAMES),
    ("owner", "BLOCK"),
    ("refs", "BLOCK"),
    ("chunk", "BLOCK"),
    ("owners", "--fold"),
    ("report", "--full", "--types", "--owners"),
    ("map", "--html", "PAGE"),
    ("report", "--html", "PAGE"),
    ("save", "COPY"),
    ("save", "COPY", "--redact"),
    ("snapshot", "COPY", "--types", "--owners"),
)


class Notes:
    """Files that `save` made of a process, of a process without its data, and of a core."""

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        self.page, self.copy = folder / "page.html", folder / "copy"
        self.files = [(each, NoteDamager(each), a_block(each)) for each in files]

    def make(self, seed: str, index: int) -> Run:
        rng = random.Random(f"{seed}:{index}")
        path, damager, block = rng.choice(self.files)
        damage = damager.damage(rng)
        name, *more = rng.choice(ASKED)
        places = {"PAGE": str(self.page), "COPY": str(self.copy), "BLOCK": block}
        words = [name, str(path), *(places.get(each, each) for each in more)]
        if "PAGE" not in more and rng.random() < 0.6:
            words.append("--json")

        def act() -> None:
            with damage.done_to(path, damager.data):
                try:
                    check(typed(words), words)
                    if self.page.exists() and RAW.search(self.page.read_text()):
                        raise Failure("characters that steer what is written, on a page")
                finally:
                    self.page.unlink(missing_ok=True)
                    self.copy.unlink(missing_ok=True)

        return Run(f"{seed}:{index} {' '.join(words)}: {damage.words}", act)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Notes:
    folder = tmp_path_factory.mktemp("notes")
    files = [folder / name for name in ("fastbins", "tcache", "redacted", "of-a-core")]
    with Subject("fastbins") as subject:
        save(subject.pid, files[0])
    with Subject("tcache") as subject:
        save(subject.pid, files[1])
        save(subject.pid, files[2], "--redact")
        save(subject.kernel_core(), files[3])
    return Notes(folder, files)


def a_block(path: Path) -> str:
    """The third that is in use."""
    said = typed(["chunks", str(path), "--used", "--limit", "3", "--json"])
    return hex(int(json.loads(said.out)["chunks"][2]["address"], 16) + 16)


def save(image: object, path: Path, *options: str) -> None:
    said = typed(["save", str(image), str(path), *options, "--json"])
    assert said.status == 0, said.complaint
    assert json.loads(said.out)["complete"]


def bounded(path: Path, words: Sequence[str], out: Path) -> dict[str, Any]:
    """What the shell's door answers within the bounds of forked.py."""

    def act() -> None:
        said = typed([words[0], str(path), *words[1:], "--json"])
        check(said, ["--json"])
        assert said.status == 0, said.complaint
        out.write_text(said.out)

    (ended,) = run_all(lambda index: Run(" ".join(words), act), 1)
    assert not ended.wrong, ended.wrong
    return json.loads(out.read_text())


BOMBS = {
    NT_MOMENT: (b"[],", b" "),
    NT_RESIDENT: (b"\0\x10" + bytes(6), bytes(16)),
    NT_SWAPPED: (b"\1" + bytes(7),),
}


@pytest.mark.parametrize(
    ("kind", "which"),
    [
        pytest.param(kind, which, marks=pytest.mark.full if which else ())
        for kind in BOMBS
        for which in range(len(BOMBS[kind]))
    ],
)
def test_a_bomb(notes: Notes, kind: int, which: int, tmp_path: Path) -> None:
    """256 MiB in a note of 256 KB: the core is one like others, which does not tell what was in memory."""
    path, damager, _ = notes.files[0]
    packer = zlib.compressobj(1)
    piece = BOMBS[kind][which]
    piece *= (1 << 20) // len(piece)
    packed = b"".join([packer.compress(piece) for _ in range(256)] + [packer.flush()])
    bomb = damager.with_notes(tmp_path / "bomb", {kind: packed})
    with CoreImage(str(bomb)) as image:
        assert image.moment is None
    whole = bounded(path, ["arenas"], tmp_path / "whole.json")
    found = bounded(bomb, ["arenas"], tmp_path / "bomb.json")
    figures = ("system_bytes", "used_bytes", "tcache", "fast", "bins")
    assert [found["totals"][name] for name in figures] == [whole["totals"][name] for name in figures]


WRONG: dict[str, tuple[str, object]] = {
    "infinite": ("taken", float("inf")),
    "not a number": ("taken", float("nan")),
    "no time": ("taken", []),
    "of 400 digits": ("memory", [10**400, 0]),
    "infinite memory": ("memory", [float("inf"), 0]),
    "negative": ("processors", -1),
    "none": ("processors", 0),
    "a word": ("exact", "yes"),
    "a number": ("redacted", 1),
    "mappings": ("mappings", {"a": 1}),
    "a mapping that ends before it starts": ("mappings", [[8192, 4096, "rw", 0, "", 0, 0, 0]]),
    "a mapping beyond all addresses": ("mappings", [[4096, 1 << 65, "rw", 0, "", 0, 0, 0]]),
    "mappings in no order": ("mappings", [[8192, 12288, "rw", 0, "", 0, 0, 0], [4096, 8192, "rw", 0, "", 0, 0, 0]]),
    "mappings over each other": ("mappings", [[4096, 12288, "rw", 0, "", 0, 0, 0], [8192, 16384, "", 0, "", 0, 0, 0]]),
    "a mapping of half a byte": ("mappings", [[4096, 8192, "rw", 0.5, "", 0, 0, 0]]),
    "a negative share": ("mappings", [[4096, 8192, "rw", 0, "", -4096, 0, 0]]),
    "a share of text": ("mappings", [[4096, 8192, "rw", 0, "", "all", 0, 0]]),
    "a path with an end": ("mappings", [[4096, 8192, "rw", 0, "/a\0b", 0, 0, 0]]),
    "a path of no bytes": ("mappings", [[4096, 8192, "rw", 0, "/\ud800", 0, 0, 0]]),
    "a name": ("threads", [[1, 7]]),
    "a thread": ("threads", [["1", "a"]]),
    "an environment": ("environment", ["A=1"]),
    "what is locked": ("locked", [[8192, 4096]]),
    "what is locked, in no order": ("locked", [[8192, 12288], [4096, 8192]]),
    "epoll": ("epoll", [[1, 2]]),
    "a timer": ("timers", [[1, 2.5]]),
    "shared memory": ("shared", [[], []]),
}


@pytest.mark.parametrize("what", full_after(4, WRONG))
def test_what_save_does_not_write(notes: Notes, what: str, tmp_path: Path) -> None:
    _, damager, _ = notes.files[0]
    key, value = WRONG[what]
    document = json.dumps({**damager.document, key: value}).encode()
    path = damager.with_notes(tmp_path / "core", {NT_MOMENT: zlib.compress(document)})
    with CoreImage(str(path)) as image:
        assert image.moment is None
    for words in (["arenas"], ["mappings"], ["threads"], ["report"]):
        bounded(path, words, tmp_path / "said.json")


def test_what_is_locked_twice(notes: Notes, tmp_path: Path) -> None:
    """By mlock() and as memory of hugetlbfs."""
    _, damager, _ = notes.files[0]
    document = json.dumps({**damager.document, "locked": [[4096, 8192], [4096, 8192]]}).encode()
    path = damager.with_notes(tmp_path / "core", {NT_MOMENT: zlib.compress(document)})
    with CoreImage(str(path)) as image:
        assert image.locked() == [(4096, 8192), (4096, 8192)]


@pytest.mark.parametrize("words", [(5,), ((1 << 64) - 1, 1), (4096, 1 << 63, 1 << 63)], ids=str)
def test_ranges_beyond_all_addresses(notes: Notes, words: tuple[int, ...], tmp_path: Path) -> None:
    _, damager, _ = notes.files[0]
    path = damager.with_notes(tmp_path / "core", {NT_RESIDENT: zlib.compress(struct.pack(f"<{len(words)}Q", *words))})
    with CoreImage(str(path)) as image:
        assert image.moment is None


def test_what_is_resident_in_a_hole(notes: Notes, tmp_path: Path) -> None:
    """By the note a terabyte is in memory, which the file has as a hole."""
    _, damager, block = notes.files[0]
    start, size = 1 << 40, 1 << 40
    rows = [[start, start + size, "rw", 0, "", size, 0, 0], *damager.document["mappings"]]
    spans = damager.spans[NT_RESIDENT]
    resident = struct.pack("<2Q", start, size) + struct.pack("<Q", spans[0] - start - size) + spans[1:].tobytes()
    document = json.dumps({**damager.document, "mappings": rows}).encode()
    changed = {NT_MOMENT: zlib.compress(document), NT_RESIDENT: zlib.compress(resident)}
    plain = damager.with_notes(tmp_path / "plain", changed)
    with CoreImage(str(plain)) as image:
        assert image.moment is not None
        assert image.regions()[0].size == size
    path = appended(plain, tmp_path / "core", [load(start, 1 << 41, size)], (1 << 41) + size)
    for words in (["owners"], ["leaks"], ["owner", block], ["types"], ["report"]):
        bounded(path, words, tmp_path / "said.json")


@seeds(SHORT // 12, SHORT // 3)
def test_a_few(notes: Notes, seed: str, runs: int) -> None:
    fuzz(notes.make, runs, seed)


@pytest.mark.fuzz
def test_many(notes: Notes) -> None:
    fuzz_many(notes.make, 2)
