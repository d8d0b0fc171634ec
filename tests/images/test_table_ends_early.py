"""Real heaps of this machine's glibc, read by a table that ends before it: what is derived is what glibc says.

The table is cut short by one assignment; nothing else is replaced. Truth is malloc_info, called in the subject.
"""

from __future__ import annotations

import json
import platform
from contextlib import contextmanager
from pathlib import Path

import pytest
from marks import full_after
from schemas import problem_ids, valid
from shell_door import arenascope
from subjects import Started, fixture_program

ROOT = Path(__file__).resolve().parents[2]
CUT = (2, 31)
DRIVER = f"""
import sys
from arenascope.glibc import release_table
release_table.NEWEST = {CUT}
from arenascope.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
RELEASE = tuple(map(int, platform.libc_ver()[1].split(".")[:2] or (0, 0)))
MMAPPED_CHANGED = (2, 43)
"""From here on an mmapped chunk's size leaves out its header."""
CASES = [
    ("bins",),
    ("tcache", "4"),
    ("many_heaps", "3", "spread"),
    ("fastbins",),
    *([("mmapped",)] if RELEASE < MMAPPED_CHANGED else []),
    ("foreign_sbrk",),
    ("blocked_brk", "stay"),
    ("pinned", "both", "8"),
]


def answered(*words):
    return arenascope(*words, code=DRIVER).stdout


@contextmanager
def fixture(words, folder):
    with Started(fixture_program(words[0]), folder, *words[1:]) as process:
        # a fixture that runs itself again has another pid than the one that was started
        yield int(process.said.split()[1])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this machine does not run on glibc")
@pytest.mark.skipif(RELEASE <= CUT, reason="this machine's glibc is not newer than where the table is cut")
@pytest.mark.parametrize("words", full_after(1, CASES), ids="-".join)
def test_figures_are_malloc_infos(words, tmp_path):
    with fixture(words, tmp_path) as pid:
        info = answered("info", pid)
        arenas, version = (valid(json.loads(answered(command, "--json", pid))) for command in ("arenas", "version"))
    assert "newer release" in version["layout"]
    assert version["checks"]["held"] == version["checks"]["tried"] >= 6
    assert info == (tmp_path / "info.xml").read_text()
    assert all(arena["used_bytes"] is not None for arena in arenas["arenas"]), arenas["problems"]
    # mp_ of a release beyond the table is known in parts at the most, and that is said
    assert {"mp-in-parts", "mp-not-found"} & set(problem_ids(arenas))


@pytest.mark.skipif(RELEASE <= CUT, reason="this machine's glibc is not newer than where the table is cut")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the shell calls into no other machine")
def test_a_sound_heap_of_such_a_release_is_trimmed(tmp_path):
    """Nothing that is not known of it is needed for that; as much leaves memory as was foretold."""
    with fixture(["hoard", "3", "12"], tmp_path) as pid:
        report, check = (valid(json.loads(answered(command, "--json", pid))) for command in ("report", "check"))
        applied = valid(json.loads(answered("trim", "--apply", "-y", "--json", pid)))["applied"]
    assert "trim-once" in [each["id"] for each in report["advice"]]
    assert (check["complete"], check["breaches"]) == (True, [])
    assert applied["released_bytes"] == pytest.approx(applied["predicted_bytes"], abs=128 << 10)
    assert applied["released_bytes"] > 8 << 20


@pytest.mark.skipif(RELEASE < MMAPPED_CHANGED, reason="here mmapped blocks look as where the table is cut")
def test_blocks_of_a_form_that_it_does_not_know_are_unknown(tmp_path):
    """Fewer are found than mp_ would count, which nothing else proves: no figure, rather than one that is wrong."""
    with fixture(["mmapped"], tmp_path) as pid:
        info = arenascope("info", pid, code=DRIVER, status=2)
        arenas = valid(json.loads(answered("arenas", "--json", pid)))
    assert info.stdout == ""
    assert "malloc_info" in info.stderr
    assert arenas["mmapped"] == {"chunks": None, "bytes": None}
    assert all(arena["used_bytes"] is not None for arena in arenas["arenas"]), arenas["problems"]
