"""mp_: against GDB's own reading, against what the program's story says, and against what the environment asked."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator

import pytest
from album import Sight
from doors import DOORS, NEWEST, Core, Live
from looks import needs, opened, plain_environment
from marks import full_after
from scenarios import seen
from subjects import Started, Subject, compiled

PAGE = 4096
WORD = 8
AT_SECURE = 23
RENAMED = {"tcache_small_bins": "tcache_bins"}
"""As a field of mp_ is called from some release on, and before."""
APART = ("global_max_fast", "perturb_byte")
"""Settings that are no field of mp_."""


def params_of(sight: Sight) -> dict:
    return {row["name"]: row for row in sight.json("params")["params"]}


def mmapped_chunk(sight: Sight, request: int) -> int:
    """sysmalloc_mmap: the padded request and a word more, in whole pages; its size leaves out the header since 2.43."""
    padded = (request + WORD + 15) & ~15
    return -(-(padded + WORD) // PAGE) * PAGE - (2 * WORD if sight.platform.since(2, 43) else 0)


@seen(only=("bins", "ladder-shuffled", "mmapped", "random-1", "asked-by-variables", "asked-by-tunables", "fastbins"))
def test_values_are_what_gdb_reads(sight: Sight) -> None:
    if not sight.glibc_params:
        pytest.skip("no debug information tells GDB of mp_ here")
    fields = {RENAMED.get(name, name): value for name, value in sight.glibc_params.items()}
    # what this release has not, is not shown
    assert {name: row["value"] for name, row in params_of(sight).items() if name not in APART} == fields


@seen(only=("bins", "tcache"))
def test_defaults(sight: Sight) -> None:
    rows = params_of(sight)
    wide, since_2_43 = sight.platform.pointer_bytes == 8, sight.platform.since(2, 43)
    defaults = {
        "trim_threshold": 131072,
        "top_pad": 131072,
        "mmap_threshold": 131072,
        "arena_test": 8 if wide else 2,
        "arena_max": 0,
        "n_mmaps_max": 65536,
        "tcache_count": 16 if since_2_43 else 7,
        "tcache_max_bytes": 1041 if since_2_43 else 1032 if wide else 1020,
    }
    assert {name: rows[name]["default"] for name in defaults} == defaults
    assert all(row["requested"] is None for row in rows.values())


@seen(only=("ladder-ascending", "ladder-shuffled"))
def test_thresholds_after_the_ladder(sight: Sight) -> None:
    """The largest block freed that is no more than 32 MiB was of 20 MB; the other threshold is twice that."""
    rows = params_of(sight)
    assert sight.truth["notes"]["size_20000000"]["mmapped"] == 1
    assert rows["mmap_threshold"]["value"] == mmapped_chunk(sight, 20_000_000)
    assert rows["trim_threshold"]["value"] == 2 * mmapped_chunk(sight, 20_000_000)
    assert rows["mmap_threshold"]["note"]
    # which is why the order decides: 200 kB were mmapped on the way up, and not after 20 MB
    ascending = sight.view.scenario.id == "ladder-ascending"
    assert bool(sight.truth["notes"]["size_200000"]["mmapped"]) is ascending


@seen(only=("workers-30MB", "bins"), images=("live",))
def test_arena_limit(sight: Sight) -> None:
    arenas, processors = sight.json("params")["arenas"], os.sysconf("SC_NPROCESSORS_ONLN")
    least = 8 if sight.platform.pointer_bytes == 8 else 2
    each = 1 if sight.platform.since(2, 44) else least
    assert arenas == {"count": len(sight.json("arenas")["arenas"]), "limit": max(least, each * processors)}
    if sight.has_texts and each * processors >= least:
        assert re.search(rf"\({each} .*\b{processors} processor", sight.text("params"))


@seen(only=("bins",), images=("kernel", "gcore"))
def test_a_core_does_not_tell_the_arena_limit(sight: Sight) -> None:
    """It may come from another machine."""
    assert sight.json("params")["arenas"]["limit"] is None


@seen(only=("asked-by-variables",))
def test_requests_by_variable(sight: Sight) -> None:
    rows = params_of(sight)
    for name, request, value in (
        ("arena_max", "MALLOC_ARENA_MAX=3", 3),
        ("mmap_threshold", "MALLOC_MMAP_THRESHOLD_=200000", 200000),
        ("top_pad", "MALLOC_TOP_PAD_=0x10000", 0x10000),
    ):
        assert (rows[name]["requested"], rows[name]["value"]) == (request, value)
    assert rows["trim_threshold"]["requested"] is None
    assert rows["no_dyn_threshold"]["value"] == 1
    document = sight.json("params")
    assert document["arenas"] == {"count": 3, "limit": 3}
    said = document["note_record"]
    assert said["id"] == "not-at-defaults"
    assert {"arena_max", "mmap_threshold", "top_pad"} <= set(said["names"]["changed"].split(", "))
    # nothing was counted for the limit: it was set
    assert (said["figures"]["requested"], said["figures"]["processors"]) == (3, None)


@seen(only=("asked-by-tunables",))
def test_requests_by_tunable(sight: Sight) -> None:
    rows = params_of(sight)
    for name, request, value in (
        ("tcache_count", "glibc.malloc.tcache_count=5", 5),
        ("trim_threshold", "glibc.malloc.trim_threshold=300000", 300000),
        ("arena_max", "glibc.malloc.arena_max=2", 2),
    ):
        assert (rows[name]["requested"], rows[name]["value"]) == (request, value)
    assert sight.json("params")["arenas"] == {"count": 2, "limit": 2}


@seen(only=("asked-wrongly",))
def test_a_wish_that_was_not_heard_is_noted(sight: Sight) -> None:
    rows = params_of(sight)
    assert rows["mmap_threshold"]["requested"] == "MALLOC_MMAP_THRESHOLD=65536"
    assert rows["mmap_threshold"]["note_record"]["id"] == "misspelt-variable"
    assert rows["mmap_threshold"]["note_record"]["names"] == {"right": "MALLOC_MMAP_THRESHOLD_"}
    assert rows["mmap_threshold"]["value"] != 65536
    assert rows["trim_threshold"]["requested"] == "MALLOC_TRIM_THRESHOLD_=lots"
    assert rows["trim_threshold"]["note_record"]["id"] == "no-number"
    if sight.has_texts:
        assert "MALLOC_MMAP_THRESHOLD_" in sight.text("params")


@seen(only=("fastbins",))
def test_what_the_program_asked_of_itself(sight: Sight) -> None:
    assert params_of(sight)["tcache_count"]["requested"] == "glibc.malloc.tcache_count=0"


ASKED = {"MALLOC_TOP_PAD_": "65536", "GLIBC_TUNABLES": "glibc.malloc.arena_max=3:glibc.malloc.tcache_count=5"}
GROUP = 12345


@pytest.fixture(scope="module")
def secure() -> Iterator[tuple[Live, Core]]:
    """A program whose file is set-group-ID, which glibc lets no environment talk into anything; and a core of it."""
    if os.geteuid() != 0:
        pytest.skip("a file is given to another group (not root)")
    subject = Subject("bins", env=ASKED)
    with tempfile.TemporaryDirectory(prefix="arenascope-secure-") as folder:
        copy = Path(shutil.copy(subject.program, folder))
        os.chown(copy, -1, GROUP)
        copy.chmod(0o2755)
        subject.program = copy
        with subject:
            auxv = dict(struct.iter_unpack("2Q", Path(f"/proc/{subject.pid}/auxv").read_bytes()))
            if not auxv[AT_SECURE]:
                pytest.skip(f"{folder} is mounted nosuid")
            yield Live(subject.pid, copy), Core(subject.gcore(), copy)


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["live", "core"])
@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_a_set_id_program_hears_nothing(secure: tuple[Live, Core], door: str, kind: str) -> None:
    image = next(each for each in secure if each.kind == kind)
    (said,) = opened(DOORS[door]).run(image, ["params --json"])
    rows = {row["name"]: row for row in said.json()["params"]}
    asked = {name for name, row in rows.items() if row["requested"]}
    # ld.so takes tcache_count out of what the program is given, from 2.39 on all
    release = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))
    assert asked == ({"top_pad", "arena_max"} if release < (2, 39) else set())
    for name in asked:
        assert rows[name]["note_record"]["id"] == "secure-program"
        assert rows[name]["value"] == rows[name]["default"]


TOLD = """
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    mallopt(M_MXFAST, 70); mallopt(M_PERTURB, 0x5a);
    char *block = malloc(3000); printf("%d\\n", (unsigned char) block[2000] ^ 0xff); fflush(stdout);
    free(block);
    for (;;) pause();
}"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, Core]]:
    """A program that called mallopt, and a core of it."""
    needs("gcore")
    folder = tmp_path_factory.mktemp("told")
    program = compiled(TOLD, folder, "-O0")
    with Started(program, env=plain_environment(), start_new_session=True) as process:
        # what M_PERTURB fills a block with is the value's complement
        assert int(process.said) == 0x5A
        subprocess.run(["gcore", "-o", folder / "core", str(process.pid)], check=True, capture_output=True)
        yield Live(process.pid, program), Core(folder / f"core.{process.pid}", program)


@pytest.mark.parametrize("kind", ["live", "core"])
@pytest.mark.parametrize("name", full_after(1, NEWEST[::-1]))
def test_what_mallopt_sets_beside_mp_(told: tuple[Live, Core], name: str, kind: str) -> None:
    image = told[0] if kind == "live" else told[1]
    (outcome,) = opened(DOORS[name]).run(image, ["params --json"])
    rows = {row["name"]: row for row in outcome.json()["params"]}
    fast, perturb = rows["global_max_fast"], rows["perturb_byte"]
    if perturb["value"] is None:
        pytest.skip("no symbols of libc tell where perturb_byte lies")
    assert perturb["value"] == 0x5A
    assert perturb["note_record"]["id"] == "set-by-program"
    if fast["default"] is None:
        assert (fast["value"], fast["note_record"]["id"]) == (None, "no-fastbins")
    else:
        # a request of 70 bytes is met by a chunk of 80, and set_max_fast rounds down
        assert (fast["value"], fast["default"]) == (64, 128)


@pytest.mark.parametrize("name", full_after(1, NEWEST))
def test_without_symbols_nothing_is_said_of_what_lies_beside_mp_(told: tuple[Live, Core], name: str) -> None:
    (outcome,) = opened(DOORS[name]).run(told[0], ["params --json"], symbols=False)
    rows = {row["name"]: row for row in outcome.json()["params"]}
    for variable in ("global_max_fast", "perturb_byte"):
        assert rows[variable]["value"] is None
        assert rows[variable]["note_record"]["id"] in ("place-unknown", "no-fastbins")
