"""What fopen() leaves of struct _IO_FILE as it was: by what was in the block before, on each release of glibc."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from platforms import HOST, Platform, host_and, libc_of
from subjects import Started

from arenascope.blocks.graph.stale_rows import leads_back, unset_words
from arenascope.sources.live.process import ProcessImage
from arenascope.sources.memory import Memory

FILLER = 0xA5A5A5A5
LAST, WIDE_FUNCTIONS = 27, 58
"""Words of what fopen asks for: the last of struct _IO_FILE_plus, and of all."""
SOURCE = Path(__file__).with_name("unset_words.c").read_text()


@pytest.mark.parametrize("kind", [(), ("wide",)], ids=["narrow", "wide"])
@pytest.mark.parametrize("platform", host_and("2.41", "2.43", "2.44"))
def test_words_that_hold_nothing_have_what_was_there_before(
    platform: Platform, kind: tuple[str, ...], tmp_path: Path
) -> None:
    if platform.missing:
        pytest.skip(platform.missing)
    (tmp_path / "main.c").write_text(SOURCE)
    subprocess.run(["gcc", "-w", "-O1", "-o", tmp_path / "main", tmp_path / "main.c"], check=True)
    libc = libc_of(platform.programs / "main") if platform != HOST else None
    within = [next(libc.libraries.glob("ld-linux*")), "--library-path", libc.libraries] if libc is not None else []
    command = [*within, tmp_path / "main", *kind]
    with Started(*command) as process:
        address, is_reused, size = process.said.split()
        assert is_reused == "1"
        stream, end = int(address, 16), int(address, 16) + int(size)
        with ProcessImage(process.pid) as image:
            memory = Memory(image.read, 8, image.byte_order)
            words, is_linked = memory.words(stream, int(size) // 8), leads_back(memory, stream)
            found = {at for span in unset_words(memory, stream, end) for at in range(*span, 8)}
    numbers = {(at - stream) // 8 for at in found}
    filled = {at for at, word in enumerate(words) if FILLER in (word >> 32, word & 0xFFFFFFFF)}
    # at the end of what a wide stream has is a pointer to functions of libc
    assert {each for each in numbers if words[each]} <= filled | {WIDE_FUNCTIONS}
    assert {each for each in filled if each <= LAST} <= numbers
    assert is_linked == platform.since(2, 40)
