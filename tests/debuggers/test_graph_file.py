"""--graph FILE: the same answers from it as from the core alone, none from what is another's or damaged, and nothing of
the program's in it."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from looks import complaints
from partial import look
from schemas import valid
from subjects import Subject

SECRET = "Kx7!pQ2#zW9@mB4%"
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
    assert "the next question is answered from it" in said
    before = graph.read_bytes()
    for words in asked:
        assert document(cores[0], f"{words} --graph {graph}") == (plain.get(words) or document(cores[0], words)), words
    assert graph.read_bytes() == before


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
    assert "of another core" in refused(cores[1], graph)
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
    for data in (b"", b"arenascope graph 0\n" + whole, b"\x7fELF"):
        graph.write_bytes(data)
        assert "is no graph that this release keeps" in refused(cores[0], graph)
    assert "is no regular file" in refused(cores[0], tmp_path)


def test_a_process_goes_on(tmp_path: Path) -> None:
    with Subject("leaky", "5") as subject:
        assert "a process goes on" in refused(Path(str(subject.pid)), tmp_path / "graph")
    assert not (tmp_path / "graph").exists()


@pytest.mark.full
def test_no_byte_of_the_programs_data_is_in_it(tmp_path: Path) -> None:
    core, graph = tmp_path / "core", tmp_path / "graph"
    with Subject("secrets", SECRET, env={"SECRET": SECRET}) as subject:
        assert look(Path(str(subject.pid)), f"save {core}")[0] == 0
    assert look(core, f"owners --graph {graph}")[0] == 0
    whole, kept = core.read_bytes(), graph.read_bytes()
    secret = SECRET.encode()
    pieces = [(secret + secret)[at : at + 8] for at in range(len(secret))]
    assert all(piece in whole for piece in pieces)
    assert [piece for piece in pieces if piece in kept] == []
