"""What well-known programs call their blocks: at least half of the bytes have a name, and of those that were drawn none
is wrong, by what the program itself says or by its memory read once more."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, NamedTuple

from partial import look
from programs import HERE
from running import Running

from arenascope.blocks.types import live_kinds
from arenascope.cli.shell import ShellDoor
from arenascope.session.session import Session

SAMPLE = 50


class Block(NamedTuple):
    user: int
    usable: int
    name: str


class Seen(NamedTuple):
    """A program that stands still."""

    session: Session
    blocks: list[Block]
    """All that have one of the names in question."""
    share: float
    """Of the bytes in use, of which more is known than the size."""

    def drawn(self) -> list[Block]:
        return random.Random(1).sample(self.blocks, min(SAMPLE, len(self.blocks)))

    def read(self, address: int, size: int) -> bytes:
        return self.session.memory.read(address, size)


@contextmanager
def seen(pid: int, names: tuple[str, ...]) -> Iterator[Seen]:
    os.kill(pid, signal.SIGSTOP)
    try:
        status, said, complained = look(Path(str(pid)), "types --limit 0", "--json")
        assert status == 0, complained
        rows = json.loads(said)["types"]
        known = sum(row["bytes"] for row in rows if row["kind"] != "size")
        session = Session(ShellDoor(str(pid), "none", ()).target())
        live = live_kinds(session)
        header, word = session.layout.header, session.layout.word
        found = [
            Block(chunk + header, size - word, live.kinds[kind].name)
            for heap in live.heaps
            for chunk, size, _, kind in live.blocks(heap)
            if kind >= 0
        ]
        for block, kind in live.mmapped:
            user = block.chunk + header
            found.append(Block(user, block.base + block.bytes - user, live.kinds[kind].name))
        yield Seen(session, [each for each in found if each.name in names], known / sum(row["bytes"] for row in rows))
    finally:
        os.kill(pid, signal.SIGCONT)


def test_sqlites_pages_are_those_of_its_database() -> None:
    size, page_words = 4096, struct.Struct("<2QI")
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        script = (HERE / "load.sql").read_text()
        saved = "SELECT 'ready';", f".save {folder}/saved.db\nSELECT 'ready';"
        (Path(folder) / "load.sql").write_text(script.replace(*saved))
        running = Running(Path(folder), ["sqlite3", "-batch", ":memory:", ".read load.sql"])
        try:
            running.await_line()
            database = (Path(folder) / "saved.db").read_bytes()
            with seen(running.pid, ("sqlite page cache",)) as found:
                assert found.share > 0.9
                assert abs(len(found.blocks) - len(database) // size) < 10
                for block in found.drawn():
                    page, _, number = page_words.unpack(found.read(block.user + 8 + size, page_words.size))
                    # the first one counts changes
                    assert number == 1 or found.read(page, size) == database[(number - 1) * size : number * size]
        finally:
            running.end()
