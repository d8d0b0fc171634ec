"""One figure, one word: what several screens say of the same bytes they say alike."""

from __future__ import annotations

import re
import subprocess
import sys

from looks import ROOT, plain_environment
from subjects import Subject

NO_CACHES = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


def said(subject: Subject, command: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bin" / "arenascope"), *command.split(), str(subject.pid), "--bytes"],
        capture_output=True,
        text=True,
        env=plain_environment(),
        check=True,
    )
    return done.stdout


def test_in_use_is_one_figure() -> None:
    """glibc's uordblks: what was taken from the kernel and is neither free nor in a top."""
    with Subject("hoard", "3", "3", env=NO_CACHES) as subject:
        assert subject.send("truth") == "ok"
        in_use = f"{subject.truth['mallinfo']['uordblks']:,} in use"
        for command in ("arenas", "chunks", "chunks --summary", "map"):
            assert in_use in said(subject, command), command
        assert re.search(r"^RSS .*: [0-9.]+ KiB ", said(subject, "report"))


def test_no_screen_has_the_words_that_nobody_knew() -> None:
    with Subject("hoard", "3", "3") as subject:
        for command in ("report --full", "arenas", "trim", "pins", "map", "chunks --summary"):
            text = said(subject, command)
            assert not re.search(r"scraps|sub-page|is cached first|\blive\b(?! process)|not malloc's", text), command


def test_a_lower_bound_that_reaches_the_upper_one_is_the_figure() -> None:
    """Of gdb's core, which does not tell what was resident: every page of it holds what was written to it."""
    with Subject("pinned", "thread", "40") as subject:
        core = str(subject.gcore())
        argv = [sys.executable, str(ROOT / "bin" / "arenascope")]
        arenas, trim = (
            subprocess.run([*argv, command, core, "--bytes"], capture_output=True, text=True, check=True).stdout
            for command in ("arenas", "trim")
        )
        bound = re.search(r"^1 .* ≤ ([\d,]+)$", arenas, re.MULTILINE)
        assert bound, arenas
        row = next(line.split() for line in trim.splitlines() if line.startswith("1 "))
        assert row[1:4:2] == [bound[1], bound[1]]
        # of the main arena's top, most was never written
        assert re.search(r"^0 main .* ≥ ", trim, re.MULTILINE)
