"""--graph FILE: the same answers from it as from the core alone, none from what is another's or damaged, and nothing of
the program's in it."""

from __future__ import annotations

import copy
import json
import mmap
import os
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any, Iterator, Sequence

import pytest
from graph_damage import GraphFile
from looks import complaints
from marks import in_full
from partial import look
from platforms import HOST
from schemas import valid
from secret_bytes import leaked_in, libraries_of, present, secrets_of
from subjects import Subject

from arenascope.blocks import pointer_finder
from arenascope.blocks.graph.edge import FLAGS, STALE
from arenascope.sources.core import same_core
from arenascope.sources.core.core_image import CoreImage

pytestmark = pytest.mark.xdist_group("graph file")

LOOKS = ("leaks --possible", "owners --limit 0")


def document(core: Path, words: str) -> dict[str, Any]:
    _, said, complained = look(core, words, "--json")
    assert said, complained
    return valid(json.loads(said))


def refused(core: Path, graph: Path) -> str:
    code, said, complained = look(core, f"leaks --graph {graph}")
    assert (code, said, len(complaints(complained))) == (2, "", 1), complained
    return complained


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two moments of a process that has leaks, tagged pointers among what is held."""
    folder = tmp_path_factory.mktemp("graph")
    found = [folder / "first.core", folder / "second.core"]
    with Subject("leaky", "5") as subject:
        for core in found:
            assert look(Path(str(subject.pid)), f"save {core}")[0] == 0
    return found


def test_the_same_answers(cores: list[Path], tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    plain = {words: document(cores[0], words) for words in LOOKS}
    lost = plain[LOOKS[0]]["leaks"]
    head = next(row["samples"][0] for row in lost if row["indirect_blocks"])
    held = next(row["path"][0]["block"] for row in plain[LOOKS[1]]["owners"] if row["path"])
    asked = [*LOOKS, f"refs {held}", f"owner {held}", f"refs {head}", f"owner {head}"]
    said = look(cores[0], f"leaks --graph {graph}")[2]
    assert str(graph) in said
    before = graph.read_bytes()
    for words in asked:
        assert document(cores[0], f"{words} --graph {graph}") == (plain.get(words) or document(cores[0], words)), words
    assert graph.read_bytes() == before


@pytest.mark.full
def test_the_same_where_nothing_is_lost(tmp_path: Path) -> None:
    core, graph = tmp_path / "core", tmp_path / "graph"
    with Subject("cache") as subject:
        assert look(Path(str(subject.pid)), f"save {core}")[0] == 0
    said = [document(core, words) for words in ("owners", *[f"owners --graph {graph}"] * 2)]
    assert graph.exists()
    assert said[0] == said[1] == said[2]


@pytest.fixture(scope="module")
def owners(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    core = tmp_path_factory.mktemp("graph") / "owners.core"
    with Subject("owners", guard_regions=False) as subject:
        assert look(Path(str(subject.pid)), f"save {core}")[0] == 0
        rows = (subject.folder / "truth" / "owners.txt").read_text().splitlines()
    return core, [row.split("|")[1] for row in rows]


@pytest.mark.full
def test_the_same_of_every_way_to_hold_a_block(owners: tuple[Path, list[str]], tmp_path: Path) -> None:
    core, addresses = owners
    for words in [f"{command} {address}" for address in addresses for command in ("refs", "owner")]:
        assert document(core, f"{words} --graph {tmp_path / 'graph'}") == document(core, words), words


def test_what_is_anothers_or_damaged_is_refused(cores: list[Path], tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    assert look(cores[0], f"leaks --graph {graph}")[0] == 1
    assert str(graph) in refused(cores[1], graph)
    whole = graph.read_bytes()
    head, body = whole[: whole.index(b"}\n") + 2], whole[whole.index(b"}\n") + 2 :]
    assert zlib.crc32(body) == json.loads(head.split(b"\n")[1])["sum"]
    wild = b"\xff" * 8 + body[8:]
    damaged = {
        "cut": whole[:-1],
        "longer": whole + b"\0",
        "turned": whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
        "no end of the line": whole[:40],
        "no JSON": head.replace(b"{", b"[", 1) + body,
        "no object": head[: head.index(b"\n") + 1] + b"7\n" + body,
        "lengths": head.replace(b'"starts": ', b'"starts": -', 1) + body,
        "a length": head.replace(b'"starts": ', b'"starts": "x", "y": ', 1) + body,
        "numbers": head.replace(str(zlib.crc32(body)).encode(), str(zlib.crc32(wild)).encode()) + wild,
    }
    for name, data in damaged.items():
        graph.write_bytes(data)
        assert "is damaged" in refused(cores[0], graph), name
    # those of releases before and after, too, which end in other parts
    rest = whole.index(b"\n")
    number = int(whole[:rest].split()[-1])
    others = [b"arenascope graph %d" % each + whole[rest:] for each in range(number + 2) if each != number]
    for data in (b"", *others, b"\x7fELF"):
        graph.write_bytes(data)
        assert str(graph) in refused(cores[0], graph)
    assert str(tmp_path) in refused(cores[0], tmp_path)


def test_a_core_that_was_changed_is_not_answered_from_it(cores: list[Path], tmp_path: Path) -> None:
    """One pointer in it is gone, and the file has its time again."""
    core, graph = tmp_path / "core", tmp_path / "graph"
    shutil.copy2(cores[0], core)
    assert look(core, f"owners --graph {graph}")[0] == 0
    held = next(row["path"][0]["block"] for row in document(core, "owners")["owners"] if row["path"])
    holder = document(core, f"refs {held}")["refs"][0]["address"]
    times = core.stat()
    with CoreImage(str(core)) as image, open(core, "r+b") as file:
        segment = image.segment_at(int(holder, 16))
        assert segment is not None
        file.seek(int(holder, 16) - segment.address + segment.offset)
        before = file.read(8)
        file.seek(-8, os.SEEK_CUR)
        file.write(bytes(8))
    os.utime(core, ns=(times.st_atime_ns, times.st_mtime_ns))
    now = core.stat()
    assert any(before)
    assert (now.st_size, now.st_mtime_ns) == (times.st_size, times.st_mtime_ns)
    assert str(graph) in refused(core, graph)


def place_in(core: Path, what: str) -> int:
    """The offset of a word of the program's."""
    with CoreImage(str(core)) as image:
        if what == "block":
            rows = document(core, "owners")["owners"]
            address = int(next(row["path"][0]["block"] for row in rows if row["path"]), 16)
        else:
            variables = next(each for each in image.regions() if each.writable and each.path.endswith("/leaky"))
            address = variables.end - 8
        segment = image.segment_at(address)
        assert segment is not None
        return address - segment.address + segment.offset


@pytest.mark.full
@pytest.mark.parametrize(("what", "soon_read"), [("block", same_core.SOON_READ), ("variable", -1)])
def test_a_core_that_was_changed_by_mmap(
    cores: list[Path], tmp_path: Path, what: str, soon_read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a page that is dirty already no time of the file changes; in memory none ever does. Of a large core, variables
    tell."""
    monkeypatch.setattr(same_core, "SOON_READ", soon_read)
    graph = tmp_path / "graph"
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as in_memory:
        core = Path(in_memory.name)
        shutil.copy(cores[0], core)
        changed_while_read(core, graph, place_in(core, what))


def changed_while_read(core: Path, graph: Path, at: int) -> None:
    with open(core, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        data[at] ^= 1
        times = core.stat()
        assert look(core, f"owners --graph {graph}")[0] == 0
        assert look(core, f"owners --graph {graph}")[0] == 0
        data[at] ^= 1
        now = core.stat()
        assert (now.st_mtime_ns, now.st_ctime_ns) == (times.st_mtime_ns, times.st_ctime_ns)
        assert str(graph) in refused(core, graph)


@pytest.mark.full
def test_a_graph_that_others_can_write_to(cores: list[Path], tmp_path: Path) -> None:
    graph = tmp_path / "graph"
    before = os.umask(0)
    try:
        assert look(cores[0], f"leaks --graph {graph}")[0] == 1
    finally:
        os.umask(before)
    assert graph.stat().st_mode & 0o777 == 0o644
    for mode in (0o664, 0o646):
        graph.chmod(mode)
        assert "another user" in refused(cores[0], graph)
    graph.chmod(0o644)
    assert look(cores[0], f"leaks --graph {graph}")[0] == 1
    if os.geteuid() == 0:
        os.chown(graph, 65534, 65534)
        assert "another user" in refused(cores[0], graph)


def test_a_core_that_was_moved_is_answered_from_it(cores: list[Path], tmp_path: Path) -> None:
    core, moved, graph = (tmp_path / name for name in ("core", "moved", "graph"))
    shutil.copy(cores[0], core)
    first = document(core, f"leaks --graph {graph}")
    before = graph.read_bytes()
    core.rename(moved)
    found = document(moved, f"leaks --graph {graph}")
    assert {**found, "target": None} == {**first, "target": None}
    assert graph.read_bytes() == before


def forged(file: GraphFile) -> Iterator[tuple[str, GraphFile]]:
    """Each with one thing that cannot be."""

    def one(name: str, at: int, value: int) -> GraphFile:
        changed = copy.deepcopy(file)
        changed.parts[name][at] = value
        return changed

    def changed_row(path: Sequence[Any], value: object) -> GraphFile:
        rows = inner = file.owners
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        changed = copy.deepcopy(file)
        changed.owners = rows
        return changed

    above, starts, ends, whose = (file.parts[name] for name in ("above", "starts", "ends", "whose"))
    block = next(at for at, each in enumerate(above) if each >= 0)
    yield "a block that owns itself", one("above", block, block)
    loop = one("above", block, above[block])
    loop.parts["above"][above[block]] = block
    yield "two blocks that own each other", loop
    yield (
        "a block below one of another owner",
        one("above", block, next(at for at, each in enumerate(whose) if each != whose[block])),
    )
    yield "an owner that has no row", one("whose", 0, max(whose) + 1)
    yield "a lead that there is not", one("lead", 0, 1 << 7)
    yield "a lead that is not as the sums say", one("lead", list(file.parts["lead"]).index(1), 0)
    yield "an owner with a number beyond all", one("whose", 0, (1 << 32) - 1)
    yield "a block that reaches into the next", one("ends", 0, starts[1])
    yield "a block beyond all heaps", one("ends", len(ends) - 1, 1 << 63)
    yield "a block before all heaps", one("starts", 0, 16)
    yield "a size that adds up to something else", one("sizes", 0, file.parts["sizes"][0] + 16)
    longer = one("sizes", 0, file.parts["sizes"][0] + 16)
    row = next(at for at, each in enumerate(file.owners[0]) if each[1] == whose[0])
    rows = file.owners
    rows[0][row][3] += 16
    rows[0][row][5] += 16
    longer.owners = rows
    yield "a size that is no block's, and adds up", longer
    yield "a root beyond all", one("seed_roots", 0, (1 << 32) - 1)
    yield "a root's pointer elsewhere", one("seed_addresses", 0, 16)
    words = max(file.parts["seed_roots"])
    in_word = [*file.parts["seed_roots"]].index(words)
    its = file.parts["seed_edges"][in_word]
    yield "a register's pointer to another block", one("seed_edges", in_word, its ^ 1 << FLAGS)
    yield "a register's pointer that is old", one("seed_edges", in_word, its ^ STALE)
    yield "a register's pointer with an address", one("seed_addresses", in_word, starts[0])
    none = copy.deepcopy(file)
    for name, part in none.parts.items():
        del part[1 if name == "offsets" or name.startswith("seed_") else 0 :]
    none.parts["seed_edges"][0] = none.parts["offsets"][0] = 0
    none.owners = [[], [[0, 0]], []]
    yield "a pointer to a block where there is none", none
    twice = copy.deepcopy(file)
    for name in ("saved", "saved_encodings"):
        twice.parts[name].append(twice.parts[name][0])
    yield "a block that is saved twice", twice
    unseen = copy.deepcopy(file)
    unseen.parts["saved"].append(next(at for at in range(len(starts)) if at not in file.parts["again_suspects"]))
    unseen.parts["saved_encodings"].append(0)
    yield "a block that is saved by nothing", unseen
    right = {"stale_addresses": starts[0], "stale_sources": 0, "stale_edges": 0, "stale_whys": 1}
    for name, wrong in (("stale_sources", len(starts)), ("stale_edges", len(starts) << FLAGS), ("stale_whys", 99)):
        stale = copy.deepcopy(file)
        for part, value in {**right, name: wrong}.items():
            stale.parts[part][:] = stale.parts[part][:0]
            stale.parts[part].append(value)
        yield f"a stale word with {name} that there are not", stale
    stale = copy.deepcopy(file)
    stale.parts["stale_addresses"].append((1 << 64) - 1)
    yield "a stale word that leads nowhere", stale
    pair = copy.deepcopy(file)
    pair.parts["strangers"].extend((ends[0], starts[0]))
    yield "what ends before it starts", pair
    mixed = copy.deepcopy(file)
    mixed.owners = [file.owners[0][::-1], *file.owners[1:]]
    yield "owners in another order", mixed
    owners = file.owners[0]
    way = next(at for at, each in enumerate(owners) if len(each[7]) > 1)
    for name, path, value in (
        ("blocks that a row has not", (0, 0, 2), 1 << 40),
        ("less than nothing in memory", (1, 0, 0), -1),
        ("more in memory than it has", (1, owners[0][1], 0), owners[0][5] + 1),
        ("more alone than it has", (0, 0, 5), owners[0][3] + 1),
        ("more that another holds as well", (0, 0, 6), owners[0][3] + 1),
        ("more that goes back than there is", (1, 0, 1), 1 << 60),
        ("a figure of 400 digits", (1, 0, 1), 10**400),
        ("a number that is none", (0, 0, 1), float("inf")),
        ("true for a number", (0, 0, 2), True),
        ("half a block", (0, 0, 2), 1.5),
        ("a way that leads nowhere", (0, 0, 7), [[1 << 40, 1, 1]]),
        ("a way that leaves out a step", (0, way, 7), owners[way][7][1:]),
        ("a step that holds more than what is above it", (0, way, 7, 0, 2), owners[way][3] + 1),
        ("owners of another shape", (0, 0, 8), {"a": 1}),
        ("a kind that there is not", (0, 0, 0, 0), str(1 << 63)),
        ("a kind that is no text", (0, 0, 0, 0), 1 << 63),
        ("a name that is none", (0, 0, 0, 1), 7),
        ("a thread that there is not", (0, 0, 0, 2), 1),
        ("a reason that there is not", (0, 0, 0, 3), "odd"),
        ("a reason that is no text", (0, 0, 0, 3), 1),
        ("a thread of 400 digits", (0, 0, 0, 2), 10**400),
        ("a row that is too short", (0, 0), owners[0][:5]),
        ("together more than there is", (2,), [[[owners[0][0]], 1 << 60]]),
        ("nobody, together", (2,), [[[["unreached", None, None, None]], 1]]),
        ("no rows", (0,), {}),
    ):
        yield name, changed_row(path, value)
    for name, value in {
        "arenas": 1,
        "file": ["a"],
        "bytes": None,
        "roots": [],
        "types": 1,
        "order": 1.5,
        "more": 1,
    }.items():
        changed = copy.deepcopy(file)
        changed.head[name] = value
        yield f"the head's {name}", changed


@pytest.mark.parametrize("with_numpy", [True, *in_full(False)])
def test_what_cannot_be_is_refused(
    cores: list[Path], with_numpy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its sum is right, and it says that it is of this core."""
    if with_numpy:
        pytest.importorskip("numpy", reason="numpy is not installed")
        monkeypatch.setattr(pointer_finder, "WORTH_IT", 0)
    graph = tmp_path / "graph"
    assert look(cores[0], f"leaks --graph {graph}")[0] == 1
    file = GraphFile(graph.read_bytes())
    assert file.written() == graph.read_bytes()
    for name, each in forged(file):
        graph.write_bytes(each.written())
        for words in ("owners --pprof", "owners --html"):
            code, said, complained = look(cores[0], f"{words} {tmp_path / 'out'} --graph {graph}")
            assert (code, said, len(complaints(complained))) == (2, "", 1), (name, complained)
            assert "is damaged" in complained, (name, complained)


def test_a_process_goes_on(tmp_path: Path) -> None:
    with Subject("leaky", "5") as subject:
        assert refused(Path(str(subject.pid)), tmp_path / "graph")
    assert not (tmp_path / "graph").exists()


@pytest.mark.full
def test_no_byte_of_the_programs_data_is_in_it(tmp_path: Path) -> None:
    core, graph = tmp_path / "core", tmp_path / "graph"
    with Subject("secrets") as subject:
        secrets, libraries = secrets_of(subject), libraries_of(subject)
        assert look(Path(str(subject.pid)), f"save {core}")[0] == 0
        # as long as the files that it has mapped are there
        assert look(core, f"owners --graph {graph}")[0] == 0
    assert len(present(core, secrets, HOST.pointer_bytes)) > 50
    assert leaked_in(graph.read_bytes(), secrets, HOST.pointer_bytes, libraries) == set()
