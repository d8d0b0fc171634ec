"""One block has one name and one address, whichever command tells of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from schemas import valid
from shell_door import arenascope
from subjects import Subject

from arenascope.base.class_names import type_words

pytestmark = pytest.mark.xdist_group("names agree")

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
void *keep[100];
int main(void) {
    char *mapped = mmap(0, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mapped, 1, 32 << 20);
    for (int i = 0; i < 100; i++) memset(keep[i] = malloc(3000), 1, 3000);
    puts("ready 1"); fflush(stdout);
    for (;;) pause();
}"""


def document(*words: object) -> dict[str, Any]:
    return valid(json.loads(arenascope(*words, "--json").stdout))


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "core"
    with Subject("kinds") as subject:
        arenascope("save", subject.pid, path)
    return path


@pytest.mark.full
def test_chunk_names_a_block_as_types_does(core: Path) -> None:
    rows = document("types", core, "--limit", 0)["types"]
    named = {sample: (row["type"], row["kind"]) for row in rows for sample in row["samples"]}
    answers = document("chunk", core, *named)["answers"]
    told = {each["chunk"]["user_address"]: (each["chunk"]["type"], each["chunk"]["kind"]) for each in answers}
    assert told == named


def test_addresses_on_the_screen_are_what_malloc_returned(core: Path) -> None:
    chunks = document("chunks", core, "--limit", 0)["chunks"]
    users = {hex(int(each["address"], 16) + 16) for each in chunks}
    some = sorted(users)[len(users) // 2]
    for place in (some, hex(int(some, 16) - 16), f"{some}+0x8"):
        told = arenascope("chunk", core, place).stdout
        assert told.startswith(f"block {some}, ")
        assert {*re.findall(r"^(?:previous|next) +(0x\w+)$", told, re.MULTILINE)} <= users


def test_what_pins_shows_is_what_chunk_is_asked_for() -> None:
    with Subject("pinned") as subject:
        pins = document("pins", subject.pid)["pins"]
        screen = arenascope("pins", subject.pid).stdout
    assert pins
    shown = {*re.findall(r"0x\w+", screen)}
    assert {each["user_address"] for each in pins} <= shown
    assert not {each["address"] for each in pins} & shown


@pytest.mark.full
def test_what_was_asked_for_is_shown_however_little_it_is(build: Any, start: Any, tmp_path: Path) -> None:
    """Of a process whose memory lies outside malloc."""
    subject = start(build(OUTSIDE))
    arenascope("save", subject.pid, tmp_path / "core")
    found = document("report", tmp_path / "core", "--types", "--owners")
    said = arenascope("report", tmp_path / "core", "--types", "--owners").stdout
    (first, *_), (keeper, *_) = found["types"], found["held"]["owners"]
    assert type_words(first["type"]) in said
    assert f"`{keeper['name']}`" in said
    assert type_words(first["type"]) not in arenascope("report", tmp_path / "core").stdout
