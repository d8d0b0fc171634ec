"""Compressed cores: unpacked into nothing that stays, and read as the core that they are."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import signal
import subprocess
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Iterator

import pytest
from looks import Core, needs, one_line
from marks import full_after, in_full
from partial import figures, judged
from schemas import problem_ids
from shell_door import ARENASCOPE, SHELL, ask, begin, look
from subjects import Subject

from arenascope.base.progress_bar import Meter, unseen
from arenascope.sources.core.compressed import BLOCK, SparseFile
from arenascope.sources.core.core_image import CoreImage

pytestmark = pytest.mark.xdist_group("compressed")

# each of them unpacks the core again
LOOKS = ("arenas", "bins", "info", "threads")
Whole = dict[str, dict[str, Any]]
ENDINGS = {
    "zst": ["zstd", "-q", "-1"],
    "lz4": ["lz4", "-q", "-1"],
    "gz": ["gzip", "-1"],
    "xz": ["xz", "-0"],
    "bz2": ["bzip2", "-1"],
}


@pytest.fixture(scope="module")
def core() -> Iterator[Path]:
    with Subject("bins") as subject:
        yield subject.kernel_core()


@pytest.fixture(scope="module")
def whole(core: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Of the same core without holes: where they are not the kernel's, they tell nothing of residency."""
    copy = tmp_path_factory.mktemp("whole") / "core"
    subprocess.run(["cp", "--sparse=never", str(core), str(copy)], check=True)
    return {name: ask(copy, name) for name in LOOKS}


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files; whatever is left there shows."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def pack(core: Path, ending: str, path: Path) -> Path:
    command = ENDINGS[ending]
    needs(command[0])
    with open(core, "rb") as source, open(path, "wb") as packed:
        subprocess.run([*command, "-c"], stdin=source, stdout=packed, check=True)
    return path


@pytest.mark.parametrize("ending", full_after(1, ENDINGS))
def test_every_figure_but_residency(core: Path, whole: Whole, ending: str, tmp_path: Path, empty: Path) -> None:
    """What was resident the holes of the core told; those that unpacking makes tell nothing."""
    packed = pack(core, ending, tmp_path / f"core.{ending}")
    for name in LOOKS:
        document = ask(packed, name)
        assert figures(document) == figures(whole[name])
        assert document["complete"]
    assert ask(core, "arenas")["totals"]["resident_bytes"]
    assert ask(packed, "arenas")["totals"]["resident_bytes"] is None
    assert list(empty.iterdir()) == []


def test_unpacked_sparse_and_the_same(core: Path, tmp_path: Path, empty: Path) -> None:
    packed = pack(core, "gz", tmp_path / "core.gz")
    with CoreImage(str(packed), unseen) as image:
        status = os.fstat(image.file)
        assert (status.st_nlink, status.st_size) == (0, core.stat().st_size)
        assert status.st_blocks * 512 < core.stat().st_size
        with CoreImage(str(core)) as original:
            for region in original.regions():
                if region.present:
                    assert image.read(region.start, region.size) == original.read(region.start, region.size)


@pytest.mark.parametrize("ending", ["zst", "lz4", *in_full("gz", "xz")])
@pytest.mark.parametrize("part", [0.3, *in_full(0.9)])
def test_packed_and_cut(core: Path, whole: Whole, ending: str, part: float, tmp_path: Path, empty: Path) -> None:
    packed = pack(core, ending, tmp_path / f"core.{ending}")
    os.truncate(packed, int(packed.stat().st_size * part))
    partly = ("could be unpacked only in part", "cannot unpack")  # lz4 gives nothing of a block that is not whole
    *outcomes, text, info = SHELL.run(Core(packed, packed), [*(f"{name} --json" for name in LOOKS), "arenas", "info"])
    for name, outcome in zip(LOOKS, outcomes):
        if outcome.error:
            assert any(words in one_line(outcome) for words in partly)
        else:
            document = judged(outcome, whole[name])
            assert not document["complete"] or figures(document) == figures(whole[name])
    assert text.error or "incomplete: " in text.text
    assert info.error or info.text == whole["info"]["xml"]
    _, said, complained = look(packed, "arenas", "--json")
    assert any(words in said + complained for words in partly)


def test_packed_and_damaged(core: Path, whole: Whole, tmp_path: Path, empty: Path) -> None:
    """A bit that tipped shows in the checksum at the end, when all has been unpacked."""
    packed = pack(core, "gz", tmp_path / "core.gz")
    data = bytearray(packed.read_bytes())
    data[-6] ^= 1  # CRC32 and ISIZE are the last eight bytes
    packed.write_bytes(data)
    document = ask(packed, "arenas")
    assert not document["complete"]
    assert problem_ids(document)[0] == "core-unpacked-in-part"


@pytest.mark.parametrize(
    ("pack", "inside"),
    [(gzip.compress, b"not a core"), (lzma.compress, gzip.compress(b"twice")), (bz2.compress, b"")],
    ids=["no core", "twice", "empty"],
)
def test_what_is_packed_is_no_core(pack, inside: bytes, tmp_path: Path, empty: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(pack(inside))
    status, said, complained = look(path, "arenas")
    assert (status, said, complained.count("\n")) == (2, "", 1)
    assert str(path) in complained


@pytest.mark.parametrize("ending", ["zst", "lz4", "gz"])
def test_nothing_can_unpack_it(core: Path, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack(core, ending, tmp_path / f"core.{ending}")
    monkeypatch.setenv("PATH", str(tmp_path))
    status, said, complained = look(packed, "arenas")
    assert (status, said, complained.count("\n")) == (2, "", 1)
    name = ENDINGS[ending][0]
    assert f"compressed by {name}" in complained
    assert f"{name} -d" in complained
    assert str(packed) in complained


@pytest.mark.parametrize("size", ["1m", "80m"], ids=["from the start", "half-way"])
def test_no_room(core: Path, size: str, tmp_path: Path) -> None:
    """In a mount of its own, so that no other disk is filled."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    big = tmp_path / "big"
    with open(big, "wb") as file:
        file.write(core.read_bytes())
        for _ in range(36):
            file.write(bytes(range(1, 256)) * 4096)
    packed = pack(big, "gz", tmp_path / "core.gz")
    folder = tmp_path / "tmpfs"
    folder.mkdir()
    script = f'mount -t tmpfs -o size={size} tmpfs "$TMPDIR" && exec "$@"'
    command = [*ARENASCOPE, "arenas", str(packed)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "mount" in done.stderr and "arenascope" not in done.stderr:
        pytest.skip(f"no tmpfs can be mounted: {done.stderr.strip()}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert str(folder) in done.stderr
    assert f"gzip -dc {packed} > core" in done.stderr


@pytest.mark.parametrize("ending", [pytest.param("gz", marks=pytest.mark.full), "zst"])
def test_ctrl_c_leaves_nothing(core: Path, ending: str, tmp_path: Path, empty: Path) -> None:
    """Large enough that it is met in the middle."""
    big = tmp_path / "big"
    with open(big, "wb") as file:
        for _ in range(12):
            file.write(core.read_bytes())
    packed = pack(big, ending, tmp_path / f"core.{ending}")
    process = begin("arenas", packed, start_new_session=True, env=os.environ)
    limit = time.monotonic() + 120
    while not _unpacking(process.pid, empty) and time.monotonic() < limit:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    said, complained = process.communicate(timeout=120)
    assert (process.returncode, said, complained) == (130, "", "arenascope: stopped\n")
    assert list(empty.iterdir()) == []


def _unpacking(pid: int, folder: Path) -> bool:
    """Whether it has a nameless file open there, and something in it."""
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            if os.readlink(entry).startswith(str(folder)) and entry.stat().st_size:
                return True
    except OSError:
        pass
    return False


def test_progress_is_told(core: Path, tmp_path: Path) -> None:
    packed = pack(core, "gz", tmp_path / "core.gz")
    advanced: list[int] = []

    class Counting:
        def advance(self, amount: int) -> None:
            advanced.append(amount)

    def meter(what: str, total: int) -> AbstractContextManager[Meter]:
        assert (what, total) == (f"unpacking {packed}", packed.stat().st_size)
        return nullcontext(Counting())

    with CoreImage(str(packed), meter):
        pass
    assert sum(advanced) == packed.stat().st_size


def test_blocks_of_zeros_become_holes(tmp_path: Path) -> None:
    """Fed in pieces that fit no block."""
    data = b"".join(bytes([kind]) * (3 * BLOCK) if kind else bytes(5 * BLOCK) for kind in (1, 0, 2, 0)) + b"end"
    with open(tmp_path / "file", "w+b", buffering=0) as file:
        out = SparseFile(file.fileno(), "core", "hint")
        for at in range(0, len(data), 70001):
            out.write(data[at : at + 70001])
        out.finish()
        assert Path(file.name).read_bytes() == data
        assert os.fstat(file.fileno()).st_blocks * 512 <= 7 * BLOCK
