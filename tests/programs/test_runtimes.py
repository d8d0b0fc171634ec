"""What the blocks of Perl, Ruby, PHP and Rust are called: at least half of the bytes have a name, and of those that
were drawn none is wrong, by where the program itself says that its text is, or by memory read once more."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from programs import HERE, PROGRAMS, Start, rust, script
from running import Running

from arenascope.blocks.name_all_blocks import live_kinds
from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session

DRAWN = 50
KNOWN = ("string", "holder", "vector", "node", "c++")
Named = dict[str, dict[int, int]]
"""Of each name the blocks: what is usable of them, by their addresses."""


def named_in(session: Session, least: float = 0.5) -> Named:
    """Where at least that share of the bytes in use has a name."""
    live = live_kinds(session)
    starts, ends = live.blocks.starts, live.blocks.ends
    blocks = [
        (starts[number], ends[number] - starts[number] + 1 & -8, live.kinds[kind]) for number, kind in live.typed()
    ]
    with_name = sum(usable for _, usable, kind in blocks if kind.kind in KNOWN)
    assert with_name > least * sum(usable for _, usable, _ in blocks)
    named: Named = defaultdict(dict)
    for user, usable, kind in blocks:
        named[kind.name][user] = usable
    return named


def session_of(running: Running) -> Session:
    return Session(ShellDoor(str(running.pid), How("none")).target())


def drawn(blocks: dict[int, int]) -> list[tuple[int, int]]:
    return random.Random(1).sample(sorted(blocks.items()), min(DRAWN, len(blocks)))


def said_by(running: Running, last: bytes) -> bytes:
    said = b""
    while not said.endswith(last):
        piece = running.process.stdout.read(1 << 16)
        assert piece, said
        said += piece
    return said


def addresses_said_by(running: Running) -> set[int]:
    return set(map(int, said_by(running, b"\n").split()))


@pytest.mark.parametrize(
    ("start", "name"),
    [
        pytest.param(script("perl", HERE / "kept.pl"), "Perl string (PV)", id="perl"),
        pytest.param(script("ruby", HERE / "kept.rb"), "Ruby String text", id="ruby"),
    ],
)
def test_texts_lie_where_the_program_says(start: Start, name: str, tmp_path: Path) -> None:
    running = start(tmp_path, None)
    try:
        said = addresses_said_by(running)
        session = session_of(running)
        named = named_in(session)
        found = {user: usable for user, usable in named[name].items() if usable >= 300}
        assert len(said - set(found)) < len(said) // 100
        for user, _ in drawn(found):
            assert user in said or session.memory.read(user, 4) != b"xxxx", hex(user)
        assert len(said & set(found)) > len(found) * 9 // 10
    finally:
        running.end()


def test_the_parts_of_perl_are_of_one_piece(tmp_path: Path) -> None:
    """Each head and body lies in an arena: a string's head has its address, and its body the size."""
    running = script("perl", HERE / "kept.pl")(tmp_path, None)
    try:
        addresses_said_by(running)
        session = session_of(running)
        named, read = named_in(session), session.memory.read
        bodies = [(user, user + usable) for user, usable in named["Perl body arena"].items()]
        heads = {}
        for user, usable in named["Perl SV arena"].items():
            for body, count, flags, kept in struct.iter_unpack("<QIIQ", read(user, usable // 24 * 24)):
                if count and flags & 0xFF in (11, 12) and kept:
                    heads[kept] = body
        for name in ("Perl array (AvARRAY)", "Perl hash (HvARRAY)"):
            assert named[name]
            for user, usable in drawn(named[name]):
                body = heads[user]
                assert any(low <= body < high for low, high in bodies)
                (most,) = struct.unpack("<Q", read(body + 24, 8))
                assert 8 * (most + 1) <= usable
        for user, usable in drawn(named["Perl shared hash key (HEK)"]):
            (length,) = struct.unpack("<i", read(user + 28, 4))
            assert read(user + 32 + length, 1) == b"\0"
            assert 34 + length <= usable
    finally:
        running.end()


def text_of(session: Session, string: int) -> bytes:
    (length,) = struct.unpack("<Q", session.memory.read(string + 16, 8))
    return bytes(session.memory.read(string + 24, length))


def zend_hash(text: bytes) -> int:
    """DJBX33A, of signed bytes."""
    hashed = 5381
    for byte in text:
        hashed = hashed * 33 + (byte ^ 0x80) - 0x80 & (1 << 64) - 1
    return hashed | 1 << 63


def test_the_hashes_of_php_are_those_of_the_keys(tmp_path: Path) -> None:
    program = next(each for each in PROGRAMS if each.name == "php")
    running = program.start(tmp_path, {"STANDS_STILL": "1"})
    try:
        program.load(running)
        session = session_of(running)
        named, read = named_in(session), session.memory.read
        for string, _ in drawn(named["zend_string"]):
            (hashed,) = struct.unpack("<Q", read(string + 8, 8))
            assert hashed in (0, zend_hash(text_of(session, string)))
        for function, _ in drawn(named["zend_internal_function"]):
            (name,) = struct.unpack("<Q", read(function + 8, 8))
            assert text_of(session, name).replace(b"_", b"").isalnum()
        for table, usable in drawn(named["HashTable buckets"]):
            places = 1 << (usable // 40).bit_length() - 1
            for _, kind, hashed, key in struct.iter_unpack("<4Q", read(table + 8 * places, 32 * min(places, 16))):
                assert not kind & 0xFF or not key or hashed == zend_hash(text_of(session, key))
    finally:
        running.end()


OLDEST_RUST = (1, 77)
"""Before, vectors began with their pointer, and tables with their mask: these are not recognised."""


def recent_rust(folder: Path, source: str) -> Running:
    if shutil.which("rustc"):
        release = re.findall(r"\d+", subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout)
        if tuple(map(int, release[:2])) < OLDEST_RUST:
            pytest.skip(f"rustc {'.'.join(release[:2])} lays vectors and tables out in an older way")
    return rust(folder, source=source)


def test_each_vec_of_a_rust_program_is_known(tmp_path: Path) -> None:
    running = recent_rust(tmp_path, "load.rs")
    try:
        running.await_line()
        session = session_of(running)
        named = named_in(session)
        assert len(named["Vec body"]) == 4
        bodies = named["Vec<u8> or String body"]
        # a third of 12,000 in each of four threads
        assert abs(len(bodies) - 4 * 4000) < 10
        for user, usable in drawn(bodies):
            assert session.memory.read(user, 20) == b"x" * 20
            assert usable >= 20
    finally:
        running.end()


RUST = {"bytes": ("Vec<u8> or String body",), "vector": ("Vec body",), "table": ("HashMap or HashSet table",), "-": ()}


def test_tables_and_vecs_are_those_that_rusts_allocator_was_asked_for(tmp_path: Path) -> None:
    """Wherever their holders lie. What nothing holds but a plain pointer, and was something else before, is none."""
    running = recent_rust(tmp_path, "tables.rs")
    try:
        lines = said_by(running, b"ready\n").decode().splitlines()[:-1]
        session = session_of(running)
        named = named_in(session)
    finally:
        running.end()
    told = {int(block, 16): what for block, what in map(str.split, lines)}
    found = {user: name for name, blocks in named.items() for user in blocks}
    claimed = {name for names in RUST.values() for name in names}
    wrong = Counter(
        (what, found[user]) for user, what in told.items() if found[user] in claimed and found[user] not in RUST[what]
    )
    assert not wrong
    kinds = Counter(told.values())
    right = Counter(what for user, what in told.items() if found[user] in RUST[what])
    assert kinds["table"] == right["table"] == 92
    assert kinds["bytes"] > 1000
    assert kinds["vector"] > 800
    for what in ("bytes", "vector"):
        assert right[what] > 0.95 * kinds[what]


def test_each_hash_table_of_gio_has_its_hashes_and_keys(tmp_path: Path) -> None:
    """By struct _GHashTable, looked for in all of its heap: as many places as its mask says, and the keys in front."""
    running = Running(tmp_path, ["gio", "monitor", tmp_path])
    try:
        running.await_that(lambda: "poll" in Path(f"/proc/{running.pid}/wchan").read_text(), "it does not wait")
        session = session_of(running)
        named = named_in(session, least=0.2)
        hashes, keys = named["GHashTable hashes"], named["GHashTable keys"]
        heaps = [heap for each in session.heaps.values() for heap in each]
        tables = set()
        for heap in heaps:
            words = struct.unpack(f"<{heap.bytes // 8}Q", session.memory.read(heap.address, heap.bytes // 8 * 8))
            for at, word in enumerate(words):
                size = words[at - 5]
                if word in hashes and size and words[at - 4] >> 32 == size - 1:
                    assert words[at - 1] in keys
                    assert 4 * size <= hashes[word] < 4 * size + 32
                    tables.add(word)
    finally:
        running.end()
    assert len(tables) > 10
    assert tables == set(hashes)
    assert len(keys) == len(hashes)
