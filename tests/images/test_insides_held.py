"""A pointer to a block's inside that is meant so is as good as one to its start; others make it possibly lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from partial import beside_each_other
from shell_door import ask
from subjects import Subject

pytestmark = pytest.mark.xdist_group("insides")

LOST = 1
ALIAS, SLICE = "shared_ptr's alias", "a slice of glib's"
MIDDLE = 1200
"""Bytes of each block that says nothing."""
EVERY = 20
"""Of the slices, which lie together."""


@pytest.fixture(scope="module")
def subject():
    with Subject("insides") as found:
        yield found


@pytest.fixture(scope="module")
def planted(subject: Subject) -> dict[int, tuple[str, str]]:
    lines = (subject.folder / "truth" / "insides.txt").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    assert len({shape for _, shape, _ in rows}) >= 9
    return {int(address, 16): (shape, strength) for address, shape, strength in rows}


def test_each_pointer_is_as_sure_as_it_is(subject: Subject, planted: dict[int, tuple[str, str]]) -> None:
    wrong: Counter[tuple[str, str]] = Counter()
    seen: Counter[str] = Counter()
    chosen = {}
    for address, (shape, strength) in planted.items():
        seen[shape] += 1
        # what holds an alias is its control block
        if shape == ALIAS or (shape == SLICE and seen[shape] % EVERY):
            continue
        chosen[address] = shape, strength
    documents = beside_each_other(Path(str(subject.pid)), [f"refs {address:#x}" for address in chosen])
    for (address, (shape, strength)), document in zip(chosen.items(), documents):
        into = address - int(document["block"]["user_address"], 16)
        refs = [each for each in document["refs"] if each["kind"] == "global" and each["into"] == into]
        assert refs, (shape, document)
        wrong.update((shape, each["strength"]) for each in refs if each["strength"] != strength)
    assert not wrong


def test_only_the_others_are_possibly_lost(subject: Subject, planted: dict[int, tuple[str, str]]) -> None:
    document = ask(subject.pid, "leaks", status=(0, LOST))
    perhaps = [each for each in document["leaks"] if each["strength"] == "possible"]
    doubtful = [address for address, (_, strength) in planted.items() if strength == "possible"]
    assert sum(each["blocks"] for each in perhaps) == len(doubtful)
    # a row shows some of its blocks
    blocks = [int(sample, 16) for each in perhaps for sample in each["samples"]]
    assert blocks
    assert all(any(block < address < block + MIDDLE for address in doubtful) for block in blocks)
