"""Files by chance: cores whose headers, notes and link maps lie, wrappers that are cut or lie, snapshots of any shape
and folders of them, debug files. A short run among all tests, a long one by `make fuzz` (forked.py).
"""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
import shutil
import struct
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import pytest
from forked import Failure, Run, fuzz, fuzz_many, seeds
from schemas import valid
from shell_door import Said, typed
from subjects import Subject

from arenascope.base.errors import ArenascopeError
from arenascope.commands.framework.find_command import COMMAND_NAMES
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.elf.address_names import _names
from arenascope.sources.elf.elf_file import (
    AT_PHDR,
    PT_DYNAMIC,
    PT_NOTE,
    Elf,
    ElfFile,
    dynamic_tags,
    find_symbols,
    glibc_version,
)
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

    @contextmanager
    def done_to(self, path: Path, data: bytes) -> Iterator[None]:
        """Meanwhile: `data` is what the file has."""
        try:
            with open(path, "r+b") as file:
                for at, new in self.patches:
                    file.seek(at)
                    file.write(new)
                file.truncate(self.size)
            yield
        finally:
            with open(path, "r+b") as file:
                for at, new in self.patches:
                    file.seek(at)
                    file.write(data[at : at + len(new)])
                file.seek(self.size)
                file.write(data[self.size :])
                file.truncate(len(data))


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
    debug = dynamic_tags(program).get(DT_DEBUG, 0)
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


ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    1 << 63,
    -(1 << 80),
    10**400,
    float("nan"),
    float("inf"),
    "",
    "text",
    "\x1b[31mred\x9b",
    "\ud800",
    "\u202etext",
    [],
    [[]],
    [None],
    {},
    {"a": 1},
    [1, "x", None],
    [{}],
)


def damaged(rng: random.Random, document: dict[str, Any]) -> bytes:
    """The file's bytes."""
    kind = rng.randrange(12)
    if kind == 0:
        deep = rng.choice((100, 200_000))
        return b'{"arenascope_snapshot":1,"report":' + rng.choice((b"[", b'{"a":')) * deep
    changed = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 2, 5))):
        replace_one(rng, changed)
    data = json.dumps(changed, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if kind == 1:
        data = data[: rng.randrange(len(data))]
    elif kind == 2:
        place = rng.randrange(len(data))
        data = data[:place] + rng.randbytes(rng.choice((1, 4))) + data[place:]
    elif kind == 3:
        data = b'{"arenascope_snapshot":1,"problems":[' + b"[]," * rng.choice((1000, 9_000_000))
    if kind in (4, 5, 6):
        packed = bytearray(gzip.compress(data if kind < 6 else data + b" " * (64 << 20), 1))
        if kind == 5:
            packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
        return bytes(packed[: rng.choice((len(packed), len(packed), rng.randrange(len(packed))))])
    return data


def replace_one(rng: random.Random, document: Any) -> str:
    """Something in it, at any depth; where."""
    inner: Any = document
    way = []
    while True:
        key = rng.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        below = inner[key]
        way.append(str(key))
        if isinstance(below, (dict, list)) and below and rng.random() < 0.85:
            inner = below
            continue
        if rng.random() < 0.2 and key != "arenascope_snapshot":
            del inner[key]
        else:
            inner[key] = copy.deepcopy(rng.choice(ODD))
        return ".".join(way)


pytestmark = pytest.mark.xdist_group("fuzz files")

SHORT = 300
NAMES = tuple(name for name in COMMAND_NAMES if name not in ("snapshot", "diff", "trend", "chunk", "refs", "owner"))
PACKERS = (("gz", "gzip"), ("xz", "xz"), ("bz2", "bzip2"), ("zst", "zstd"), ("lz4", "lz4"))
RAW = re.compile("(?!\x1b\\[[0-9;]*m)[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069\ufeff]")


def check(said: Said, words: list[str]) -> None:
    """What must hold of every answer."""
    if said.status not in (0, 1, 2):
        raise Failure(f"status {said.status}: {said.complaint}")
    if "not enough memory" in said.complaint:
        raise Failure(said.complaint)
    if said.status == 2 and len(said.complaint.splitlines()) != 1:
        raise Failure(f"an error that is not one line: {said.complaint!r}")
    if said.status == 2 and ("error" not in valid(json.loads(said.out)) if "--json" in words else said.out):
        raise Failure(f"an error, and an answer: {said.out[:200]!r} {said.complaint!r}")
    if RAW.search(said.out + said.complaint):
        raise Failure(f"characters that steer a terminal: {said.out[:200]!r} {said.complaint[:200]!r}")
    if said.status != 2 and "--json" in words:
        check_totals(valid(json.loads(said.out)))


def check_totals(document: dict[str, Any]) -> None:
    for name, value in (document.get("totals") or {}).items():
        number = value.get("bytes") if isinstance(value, dict) else value
        if isinstance(number, int) and number < 0:
            raise Failure(f"{name} is {number}")


class Bench:
    """What is damaged, and where: a folder with a copy of each."""

    def __init__(self, folder: Path, cores: dict[str, Path], snapshot: dict[str, Any], program: Path) -> None:
        self.folder, self.snapshot = folder, snapshot
        self.cores = []
        self.packed = []
        for name, path in cores.items():
            with CoreImage(str(path)) as core:
                order = core.byte_order
            self.cores.append((name, path, Damager(path.read_bytes(), order, fields_of(str(path)))))
        first = next(iter(cores.values()))
        for ending, packer in PACKERS:
            if shutil.which(packer):
                data = subprocess.run([packer, "-c", str(first)], check=True, capture_output=True).stdout
                self.packed.append((ending, data))
        self.program = program.read_bytes()
        self.elf_fields = [(at, size) for at, size in elf_fields(str(program)) if at + size <= len(self.program)]

    def make(self, seed: str, index: int) -> Run:
        rng = random.Random(f"{seed}:{index}")
        kind = rng.random()
        maker: Callable[[random.Random], Run] = (
            self.core
            if kind < 0.55
            else self.wrapped
            if kind < 0.7
            else (self.diff if kind < 0.85 else self.debug_file)
        )
        run = maker(rng)
        return run._replace(words=f"{seed}:{index} {run.words}")

    def core(self, rng: random.Random) -> Run:
        name, path, damager = rng.choice(self.cores)
        damage = damager.damage(rng)
        words = [rng.choice(NAMES), str(path), *(["--json"] if rng.random() < 0.7 else [])]
        saved = self.folder / "saved.core"
        if words[0] == "save":
            words += [str(saved), *(["--redact"] if rng.random() < 0.5 else [])]

        def act() -> None:
            with damage.done_to(path, damager.data):
                try:
                    check(typed(words), words)
                finally:
                    saved.unlink(missing_ok=True)

        return Run(f"{words[0]} {name}: {damage.words}", act)

    def wrapped(self, rng: random.Random) -> Run:
        ending, data = rng.choice(self.packed)
        path = self.folder / f"packed.{ending}"
        packed = bytearray(data)
        for _ in range(rng.choice((0, 1, 1, 3))):
            packed[rng.randrange(rng.choice((32, len(packed))))] = rng.randrange(256)
        end = rng.choice((len(packed), rng.randrange(len(packed)), rng.randrange(64)))
        words = ["arenas", str(path), "--json"]

        def act() -> None:
            path.write_bytes(packed[:end])
            check(typed(words), words)

        return Run(f"arenas packed.{ending}, {end} bytes of {len(packed)}", act)

    def diff(self, rng: random.Random) -> Run:
        paths = [self.folder / "a.json", self.folder / "b.json"]
        files = [damaged(rng, self.snapshot), json.dumps(self.snapshot).encode()]
        rng.shuffle(files)
        words = ["diff", *map(str, paths), *(["--json"] if rng.random() < 0.5 else [])]

        def act() -> None:
            for path, data in zip(paths, files):
                path.write_bytes(data)
            check(typed(words), words)

        return Run("diff", act)

    def debug_file(self, rng: random.Random) -> Run:
        """What a core makes this machine open, by the very functions that do."""
        path = self.folder / "module"
        data = bytearray(self.program)
        for at, size in rng.choices(self.elf_fields, k=rng.choice((1, 1, 2, 5))):
            one = b"\1" + bytes(size - 1)
            data[at : at + size] = rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size), one))
        end = rng.choice((len(data), len(data), rng.randrange(len(data))))

        def act() -> None:
            path.write_bytes(data[:end])
            try:
                with ElfFile(str(path)) as file:
                    file.build_id(), glibc_version(file.data), file.first_address
                    find_symbols(file, ("main", "main_arena"))
                    list(_names(file))
            except ArenascopeError:
                pass

        return Run("debug file", act)


def elf_fields(path: str) -> list[tuple[int, int]]:
    """(offset, size) of the fields of a file's headers, and some of its symbols."""
    with ElfFile(path) as file:
        fields = [(at, 1) for at in range(16)] + [(at, 2) for at in range(16, 64, 2)]
        fields += [(file._phoff + at, 8) for at in range(0, 56 * len(file.segments), 8)]
        fields += 2 * [(file._shoff + at, 8) for at in range(0, 64 * len(file.sections), 8)]
        for section in file.sections:
            if section.type in (2, 7, 11):
                fields += [(section.offset + at, 4) for at in range(0, min(section.size, 480), 4)]
    return fields


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("files")
    cores = {}
    for name in ("fastbins", "tcache"):
        with Subject(name) as subject:
            cores[name] = folder / f"{name}.core"
            shutil.copy(subject.kernel_core(), cores[name])
            program = subject.program
    with Subject("tcache") as subject:
        cores["gcore"] = folder / "gcore.core"
        shutil.copy(subject.gcore(), cores["gcore"])
    saved = folder / "snapshot.json"
    said = typed(["snapshot", str(cores["fastbins"]), str(saved), "--sizes", "--types", "--owners"])
    assert said.status == 0, said.complaint
    return Bench(folder, cores, json.loads(saved.read_text()), program)


@seeds(SHORT // 12, SHORT // 3)
def test_a_few(bench: Bench, seed: str, runs: int) -> None:
    fuzz(bench.make, runs, seed)


@pytest.mark.fuzz
def test_many(bench: Bench) -> None:
    fuzz_many(bench.make)


class Kept:
    """The snapshot of a process, and a folder for damaged copies of it."""

    def __init__(self, folder: Path) -> None:
        self.page, self.moments = folder / "page.html", folder / "moments"
        self.moments.mkdir()
        with Subject("cache") as subject:
            said = typed(["snapshot", str(subject.pid), str(folder / "snapshot"), "--types", "--owners"])
            assert said.status == 0, said.complaint
        self.snapshot: dict[str, Any] = json.loads((folder / "snapshot").read_text())

    def make(self, seed: str, index: int) -> Run:
        rng = random.Random(f"{seed}:{index}")
        files = {}
        for number in range(5):
            document = {**self.snapshot, "taken": self.snapshot["taken"] + 60 * number}
            whole = json.dumps(document).encode()
            path = self.moments / f"{number}.json"
            files[path] = damaged(rng, document) if rng.random() < 0.5 else whole
        words = ["trend", str(self.moments), *rng.choice(([], [], ["--html", str(self.page)], ["--until", "1G"]))]
        if rng.random() < 0.5:
            words = [*words, "--json"]

        def act() -> None:
            for path, data in files.items():
                path.write_bytes(data)
            try:
                check(typed(words), words)
                if self.page.exists() and RAW.search(self.page.read_text()):
                    raise Failure("characters that steer what is written, on a page")
            finally:
                for path in (*files, self.page):
                    path.unlink(missing_ok=True)

        return Run(f"{seed}:{index} {' '.join(words)}", act)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("kept"))


def test_a_few_kept(kept: Kept) -> None:
    fuzz(kept.make, SHORT // 8, "always")


@pytest.mark.fuzz
def test_many_kept(kept: Kept) -> None:
    fuzz_many(kept.make, 2)
