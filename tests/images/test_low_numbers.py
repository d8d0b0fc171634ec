"""Numbers that are by chance addresses in a heap below 4 GiB: whatever else leads to a block holds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell_door import ask, look
from subjects import Started, compiled

pytestmark = pytest.mark.xdist_group("low numbers")

SOURCE = Path(__file__).with_name("low_numbers.c").read_text()


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """With the blocks that the program tells."""
    folder = tmp_path_factory.mktemp("low")
    with Started(compiled(SOURCE, folder, "-O1", "-no-pie", "-fno-pie")) as running:
        blocks = [~int(each, 16) & (1 << 64) - 1 for each in running.said.split()]
        assert look(running.pid, f"save {folder / 'low.core'}")[0] == 0
    return folder / "low.core", blocks


def test_who_holds_what(core: tuple[Path, list[int]]) -> None:
    """A number holds what nothing else leads to, also one of a variable's that leads far inside; a block's that is a
    multiple of 8, as pointers to structs are, counts as ever."""
    image, (shared, lonely, aligned, read) = core
    assert read < 1 << 32
    expected = {
        shared: ("keeper", None),
        lonely: ("hashes", "low-number"),
        aligned: ("hashes", None),
        read: ("cursor", "low-number"),
    }
    for address, held_by in expected.items():
        found = ask(image, f"owner {address:#x}")["held_by"]
        assert (found["name"], found["stale"]) == held_by
    assert {each["stale"] for each in ask(image, f"refs {shared:#x}")["refs"]} == {None, "low-number"}


def test_none_is_lost(core: tuple[Path, list[int]]) -> None:
    image, (_, lonely, _, read) = core
    found = ask(image, "leaks")
    assert {each["strength"] for each in found["leaks"]} == {"possible"}
    stale = sorted((each["name"], each["why"], each["samples"]) for each in found["stale_words"])
    assert stale == [("32 bytes", "low-number", [f"{lonely:#x}"]), ("cursor", "low-number", [f"{read:#x}"])]
