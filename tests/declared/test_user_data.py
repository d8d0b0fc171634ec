"""Keys and texts of the program: on screens, and in what can be sent on with --with-values alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from doors import GDB
from looks import opened
from sites import PROGRAMS, Sited

pytestmark = [pytest.mark.needs_gdb, pytest.mark.debugger]
PLANTED = ("-of-today", "venue of some", "NESN.SW", "a symbol with a long name")
"""What orders.cc has as keys and texts."""
SENT_ON = (
    "owners",
    "pins --owners --own",
    "leaks",
    "report --full",
    "types",
    "containers",
    "waste",
    "check",
    "threads",
    "stats",
)
FILES = ("report --html {}", "owners --html {}", "owners --pprof {}", "map --html {}", "snapshot {} --types --owners")


def planted_in(text: str) -> list[str]:
    return [each for each in PLANTED if each in text]


def test_what_can_be_sent_on_has_it_on_request_alone(tmp_path: Path) -> None:
    gdb = opened(GDB)
    sited = Sited(PROGRAMS / "orders.O1", tmp_path, "120", "kept")
    try:
        expected = sited.expected()
        orders = [address for address, each in expected.items() if "<Order," in each.type][:2]
        texts = [address for address, each in expected.items() if each.type == "char"][:40]
        image = sited.image("core", tmp_path)
    finally:
        sited.end()
    assert orders
    assert texts
    of_blocks = [f"{each} {orders[0]:#x}" for each in ("owner", "refs", "chunk")]
    of_blocks.append(f"chunk {' '.join(map(hex, texts))}")
    asked = [*of_blocks, *SENT_ON]
    files = [tmp_path / f"file{number}" for number in range(len(FILES))]
    written = [each.format(file) for each, file in zip(FILES, files)]
    with_values = [f"{each} --json --with-values" for each in (*of_blocks, "waste")]
    said = gdb.run(image, [*(f"{each} --json" for each in asked), *written, *of_blocks, *with_values])
    without, on_request = said[: len(asked) + len(written)], said[len(asked) + len(written) :]
    assert [(each.command, planted_in(each.text), each.error) for each in without if each.error] == []
    assert [(each.command, planted_in(each.text)) for each in without[: len(asked)] if planted_in(each.text)] == []
    assert [(file.name, each) for file in files for each in PLANTED if each.encode() in file.read_bytes()] == []
    for each in on_request:
        assert planted_in(each.text)
