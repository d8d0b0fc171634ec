"""Files by chance: cores whose headers, notes and link maps lie, wrappers that are cut or lie, snapshots of any shape,
debug files. A short run among all tests, a long one by `make fuzz`; what makes it longer, or does one run again, is in
test_fuzz.py.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Callable, Protocol

import pytest
from core_damage import Damager, fields_of
from forked import Run, Said, door, run_all
from schemas import valid
from snapshot_damage import damaged
from subjects import Subject
from test_fuzz import LONG, MAX_SHOWN, today

from arenascope.base.errors import ArenascopeError
from arenascope.commands.all_commands import COMMAND_NAMES
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.elf.address_names import _names
from arenascope.sources.elf.elf_file import ElfFile, find_symbols, glibc_version

pytestmark = pytest.mark.xdist_group("fuzz files")

SHORT = 300
NAMES = tuple(name for name in COMMAND_NAMES if name not in ("snapshot", "diff", "trend", "chunk", "refs", "owner"))
PACKERS = (("gz", "gzip"), ("xz", "xz"), ("bz2", "bzip2"), ("zst", "zstd"), ("lz4", "lz4"))
RAW = re.compile("(?!\x1b\\[[0-9;]*m)[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069\ufeff]")


class Failure(AssertionError):
    pass


class Makes(Protocol):
    """Which run a seed and a number stand for."""

    def make(self, seed: str, index: int) -> Run: ...


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
            with open(path, "r+b") as file:
                file.truncate(damage.size)
                for at, data in damage.patches:
                    file.seek(at)
                    file.write(data)
            try:
                check(door(words), words)
            finally:
                saved.unlink(missing_ok=True)
                with open(path, "r+b") as file:
                    file.truncate(len(damager.data))
                    for at, data in damage.patches:
                        file.seek(at)
                        file.write(damager.data[at : at + len(data)])
                    if damage.size < len(damager.data):
                        file.seek(damage.size)
                        file.write(damager.data[damage.size :])

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
            check(door(words), words)

        return Run(f"arenas packed.{ending}, {end} bytes of {len(packed)}", act)

    def diff(self, rng: random.Random) -> Run:
        paths = [self.folder / "a.json", self.folder / "b.json"]
        files = [damaged(rng, self.snapshot), json.dumps(self.snapshot).encode()]
        rng.shuffle(files)
        words = ["diff", *map(str, paths), *(["--json"] if rng.random() < 0.5 else [])]

        def act() -> None:
            for path, data in zip(paths, files):
                path.write_bytes(data)
            check(door(words), words)

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
    said = door(["snapshot", str(cores["fastbins"]), str(saved), "--sizes", "--types", "--owners"])
    assert said.status == 0, said.complaint
    return Bench(folder, cores, json.loads(saved.read_text()), program)


def fuzz(bench: Makes, count: int, seed: str) -> None:
    seed = os.environ.get("ARENASCOPE_FUZZ_SEED", seed)
    first = 0
    if ":" in seed:
        seed, _, index = seed.rpartition(":")
        first, count = int(index), 1
    print(f"fuzz: seed {seed}, {count} runs over files", flush=True)
    failures, longest = [], 0.0
    for ended in run_all(lambda index: bench.make(seed, first + index), count):
        longest = max(longest, ended.seconds)
        if ended.wrong:
            failures.append(f"run {ended.words}: {ended.wrong}")
            if len(failures) >= MAX_SHOWN:
                break
    print(f"fuzz: the longest run took {longest:.1f} s", flush=True)
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize(
    ("seed", "runs"),
    [
        ("always", SHORT // 12),
        *(pytest.param(each, SHORT // 3, marks=pytest.mark.full) for each in ("once more", "again", "more")),
    ],
    ids=["always", "once more", "again", "more"],
)
def test_a_few(bench: Bench, seed: str, runs: int) -> None:
    fuzz(bench, runs, seed)


@pytest.mark.fuzz
def test_many(bench: Bench) -> None:
    fuzz(bench, int(os.environ.get("ARENASCOPE_FUZZ_RUNS", LONG)), f"{today()} {os.getpid()}")
