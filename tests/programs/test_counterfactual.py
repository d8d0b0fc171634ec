"""What is said of real programs that stand still, held against the same programs with the advice followed.

The table is to be read: which program it is and what it does, what its judgement may be, what must and what must not be
said of it. For each row every advice with a figure is followed, in the process that it was given to or in one that is
started anew and does the same, and the kernel says what came of it: no less than was promised, and no more than was
promised or left out.
"""

from __future__ import annotations

import re
import socket
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional
from xml.etree import ElementTree

import pytest
from doors import DOORS, GDB, Live
from looks import complaints, give_up
from programs import (
    ELSEWHERE,
    FOREIGN,
    HERE,
    IN_USE,
    SETTLED,
    TUNING,
    Env,
    Start,
    browser,
    chromium,
    fewer_keys,
    has_started,
    its_backend,
    its_worker,
    java,
    join,
    log_in,
    mariadb,
    memcached,
    nginx,
    pages,
    postgres,
    redis,
    redis_on_glibc,
    rows,
    rust,
    script,
    sqlite,
    tables,
    values,
)
from running import Running, Work

MIB = 1 << 20
SLACK, NOISY = 4 * MIB, 8 * MIB
"""What differs from run to run, or a twentieth of its memory; in programs that compile while they run."""
PIN = {"MALLOC_TRIM_THRESHOLD_": "131072"}
FEW = {"MALLOC_ARENA_MAX": "2"}
SMALL_CACHES = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=2"}
ANOTHER = "libjemalloc.so.2"
STILL = {"STANDS_STILL": "1"}
"""Our own scripts go on otherwise."""
SMALL = """
import time
blocks = [b"x" * (2000 + number % 7) for number in range(30000)]
kept = blocks[::10]
del blocks
"""
"""Blocks of 2 KB, of which one in ten is kept: all that is free lies between these."""
LARGE = """
import time
blocks, kept = [], []
raises = b"y" * 4000000
del raises
for number in range(200):
    blocks.append(b"x" * (300000 + number % 7))
    kept.append(b"x" * (2000 + number % 7))
del blocks
"""
"""Blocks of 300 KB, which the default threshold would have kept out of the arenas."""
WAITS = "print('ready', flush=True)\ntime.sleep(1000)\n"
Load = Callable[[Running], None]
SAME = 60
"""So many looks, a twentieth of a second apart."""


class Row(NamedTuple):
    """A program, and what is said of it by ids."""

    name: str
    start: Start
    load: Load
    judgements: tuple[str, ...]
    """One of these."""
    must: tuple[str, ...]
    never: tuple[str, ...]
    threads: bool = False
    """It can have more than two arenas."""
    ours: bool = True
    """glibc serves its malloc: it can be trimmed."""
    noise: int = SLACK


def python(text: str) -> Start:
    return script("/usr/bin/python3", "-c", text + WAITS)


def worked(work: Work, rounds: int, path: str = "socket", greet: Callable[[socket.socket], None] = bool) -> Load:
    return lambda running: running.serve(running.folder / path, work, rounds, greet, rounds)


def in_turn(*loads: Load) -> Load:
    def do(running: Running) -> None:
        for load in loads:
            load(running)

    return do


def settled(running: Running) -> None:
    """Its memory has not changed for a while."""
    seen: list[int] = []

    def is_still() -> bool:
        seen.append(own_of(running))
        return len(seen) > SAME and max(seen[-SAME:]) - min(seen[-SAME:]) < MIB // 4

    running.await_that(is_still, "it goes on working")


READY: Load = Running.await_line
TRIM = ("free-between-live", "trim-once")
PINS = ("thresholds-grew", "pin-thresholds")
ROWS = (
    Row("python-small", python(SMALL), READY, ("freed",), TRIM, (*PINS, "limit-arenas", "ask-who-mapped")),
    Row(
        "python-large",
        python(LARGE),
        READY,
        ("freed-thresholds-grew",),
        PINS,
        ("limit-arenas", "ask-who-mapped", *IN_USE),
    ),
    Row(
        "node",
        script("node", "--expose-gc", HERE / "freed.js"),
        READY,
        ("freed", "live-and-freed", *ELSEWHERE),
        TRIM,
        (*PINS, *IN_USE),
        threads=True,
        noise=NOISY,
    ),
    Row("sqlite", sqlite, READY, ("live-and-freed",), TRIM, ("limit-arenas", *PINS, *FOREIGN, *SETTLED)),
    Row("perl", script("perl", HERE / "load.pl"), READY, ("freed", "live-and-freed"), (), ("limit-arenas", *FOREIGN)),
    Row(
        "ruby",
        script("ruby", HERE / "load.rb"),
        READY,
        ("live-data", "live-and-freed", "freed", *ELSEWHERE),
        ("not-this-malloc",),
        ("limit-arenas",),
    ),
    Row("php", script("php", HERE / "load.php"), READY, ELSEWHERE, FOREIGN, (*TUNING, *IN_USE)),
    Row("rust", rust, READY, ("freed", "live-and-freed"), ("pages-shared-with-live",), (*FOREIGN, *PINS), threads=True),
    Row("java", java, in_turn(READY, settled), ELSEWHERE, FOREIGN, (*PINS, *IN_USE), threads=True, noise=NOISY),
    Row(
        "redis",
        redis,
        worked(fewer_keys, 600),
        ELSEWHERE,
        FOREIGN,
        (*TUNING, *IN_USE),
        threads=True,
        ours=False,
    ),
    Row(
        "redis-on-glibc",
        redis_on_glibc,
        worked(fewer_keys, 600),
        ("freed", "live-and-freed"),
        TRIM,
        ("limit-arenas", *IN_USE),
        threads=True,
    ),
    Row(
        "memcached",
        memcached,
        worked(values, 200),
        ("live-data", "live-and-freed"),
        (),
        ("limit-arenas", "other-allocator", *FOREIGN),
        threads=True,
    ),
    Row("nginx", nginx, in_turn(worked(pages, 20), its_worker), ELSEWHERE, (), (*TUNING, *FOREIGN)),
    Row(
        "mariadbd",
        mariadb,
        in_turn(worked(tables, 10, greet=log_in), settled),
        ELSEWHERE,
        FOREIGN,
        IN_USE,
        threads=True,
    ),
    Row(
        "postgres",
        postgres,
        in_turn(has_started, worked(rows, 10, ".s.PGSQL.5432", join), its_backend),
        ELSEWHERE,
        FOREIGN,
        ("limit-arenas", *IN_USE),
    ),
    Row(
        "chromium",
        chromium,
        in_turn(browser, settled),
        ("no-heap", "mostly-not-this-malloc"),
        FOREIGN,
        (*TUNING, *IN_USE),
        threads=True,
        ours=False,
        noise=NOISY,
    ),
)
SHORT = ("python-small",)
"""Those of `make test`."""


class Looked(NamedTuple):
    """One that was asked, and where glibc serves it, did what it was advised to."""

    report: Mapping[str, Any]
    own: int
    """Its memory without pages of files, by the kernel."""
    free: Optional[int]
    """What malloc_info calls free."""
    trimmed: Optional[int]
    """Its memory after malloc_trim(0), called by GDB."""
    topped: Optional[int]
    """And after trim --apply --tops; None where that refused."""
    refused: str = ""

    @property
    def effects(self) -> dict[str, int]:
        return {each["id"]: each["effect_bytes"] for each in self.report["advice"]}

    @property
    def ids(self) -> set[str]:
        return {each["id"] for key in ("causes", "advice") for each in self.report[key]}

    def slack(self, row: Row) -> int:
        return max(row.noise, self.own // 20)


def anonymous(rollup: Path) -> int:
    return int(re.search(r"^Anonymous: +(\d+) kB", rollup.read_text(), re.MULTILINE).group(1)) * 1024


@contextmanager
def standing_still(row: Row, env: Env) -> Iterator[Running]:
    # not pytest's own folder: a socket's path must be short
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = row.start(Path(folder), {**STILL, **(env or {})})
        try:
            row.load(running)
            yield running
        finally:
            running.end()


def image_of(running: Running) -> Live:
    return Live(running.pid, Path(f"/proc/{running.pid}/exe").resolve())


def own_of(running: Running) -> int:
    return anonymous(Path(f"/proc/{running.pid}/smaps_rollup"))


def called_free(document: Path) -> int:
    """The last two totals of malloc_info that are no mapping."""
    root = ElementTree.fromstring(document.read_text())
    return sum(int(each.get("size", "0")) for each in root.findall("total") if each.get("type") in ("fast", "rest"))


def steps_of(running: Running, trims: bool) -> list[str]:
    """malloc_info into a file, by its own code; then a trim, if so."""
    opened = f"""((void *(*)(const char *, const char *)) fopen)("{running.folder}/info", "w")"""
    steps = [
        f"set var $file = {opened}",
        "print ((int (*)(int, void *)) malloc_info)(0, $file)",
        "print ((int (*)(void *)) fclose)($file)",
    ]
    return [*steps, "print ((int (*)(unsigned long)) malloc_trim)(0)"] if trims else steps


@cache
def looked(row: Row) -> Looked:
    if row.ours and GDB.available():
        give_up(GDB.available() or "")
    with standing_still(row, None) as running:
        image = image_of(running)
        report = DOORS["shell"].run(image, ["report --quick --json"])[0].json()
        own = own_of(running)
        if not row.ours:
            return Looked(report, own, None, None, None)
        GDB.drive(GDB.look_at(image), [{"do": step} for step in steps_of(running, trims=True)])
        trimmed = own_of(running)
        (applied,) = DOORS["shell"].run(image, ["trim --apply --tops -y --json"])
        topped = own_of(running) if applied.error is None else None
        return Looked(report, own, called_free(running.folder / "info"), trimmed, topped, applied.error or "")


def gained(row: Row, env: Mapping[str, str]) -> int:
    """By how much the same needs less that was started so."""
    with standing_still(row, dict(env)) as running:
        return looked(row).own - own_of(running)


def gained_at_least(row: Row, env: Mapping[str, str], enough: int) -> int:
    """The same, where that is more than enough: beside others started anew, too, twice at most. How far a server's
    peaks go on a busy machine is chance; what a setting brings it brings each time."""
    least = gained(row, env)
    for _ in range(2):
        if least > enough:
            with standing_still(row, None) as running:
                own = own_of(running)
            with standing_still(row, dict(env)) as running:
                least = min(least, own - own_of(running))
    return least


def freed(row: Row, env: Mapping[str, str]) -> int:
    """By how much less malloc_info calls free."""
    with standing_still(row, dict(env)) as running:
        GDB.drive(GDB.look_at(image_of(running)), [{"do": step} for step in steps_of(running, trims=False)])
        return (looked(row).free or 0) - called_free(running.folder / "info")


def each_row(*rows: Row) -> pytest.MarkDecorator:
    def marks(row: Row) -> list[pytest.MarkDecorator]:
        return [pytest.mark.xdist_group(f"still-{row.name}"), *([] if row.name in SHORT else [pytest.mark.full])]

    return pytest.mark.parametrize("row", [pytest.param(row, id=row.name, marks=marks(row)) for row in rows])


@each_row(*ROWS)
def test_the_report_says_only_what_its_row_allows(row: Row) -> None:
    seen = looked(row)
    assert seen.report["judgement"]["id"] in row.judgements
    assert not set(row.must) - seen.ids, seen.ids
    assert not set(row.never) & seen.ids, seen.ids


def slack(row: Row, known: int) -> int:
    """What may have come or gone between two looks: a JVM gives back by itself when it has nothing to do."""
    return max(MIB, known // 50, NOISY if row.noise == NOISY else 0)


@each_row(*(row for row in ROWS if row.ours))
def test_malloc_trim_returns_what_was_promised(row: Row) -> None:
    seen = looked(row)
    known = sum(each["bytes"] for each in seen.report["parts"])
    returned = seen.own - (seen.trimmed or 0)
    # advice is given from a size on that is as large as what the kernel's figures are off by
    parts = {each["part"]: each["bytes"] for each in seen.report["parts"]}
    promised = seen.effects.get("trim-once", parts.get("returnable", 0))
    assert abs(returned - promised) <= slack(row, known)
    # a tenth of all and more is not "little to give back"
    assert (seen.report["judgement"]["id"] == "live-data") <= (10 * returned < known)


@each_row(*(row for row in ROWS if row.ours and row.threads))
def test_tops_return_what_was_promised(row: Row) -> None:
    seen = looked(row)
    if seen.topped is None:
        pytest.skip(" ".join(complaints(seen.refused)))  # a JIT's frames, say, which no table describes
    known = sum(each["bytes"] for each in seen.report["parts"])
    assert abs(seen.trimmed - seen.topped - seen.effects.get("release-tops", 0)) <= slack(row, known)


# another allocator gives back when it likes: what it has then is not what was set for malloc


@each_row(*(row for row in ROWS if row.ours))
def test_thresholds_are_blamed_where_pinning_them_helps(row: Row) -> None:
    """And nowhere else: pieces of many MiB that small blocks left behind are no sign of large ones."""
    seen = looked(row)
    promised = seen.effects.get("pin-thresholds", 0)
    brought = gained_at_least(row, PIN, promised + seen.slack(row))
    assert brought <= promised + seen.slack(row)
    if promised:
        assert min(brought, freed(row, PIN)) >= 0.9 * promised - seen.slack(row)
    assert (seen.report["judgement"]["id"] == "freed-thresholds-grew") <= (brought > row.noise)


@each_row(*(row for row in ROWS if row.ours and row.threads))
def test_fewer_arenas_bring_no_more_than_is_told(row: Row) -> None:
    """How threads meet in two arenas is chance: what is to be had by that comes of it each time. Where it is advised,
    some of it comes; where no more is said than that it depends on their peaks, not more than that."""
    seen = looked(row)
    promised = seen.effects.get("limit-arenas", 0)
    figures = next((each["figures"] for each in seen.report["advice"] if each["id"] == "leave-arena-max"), None)
    depends = figures["outside_bytes"] + figures["stranded_outside_bytes"] if figures else 0
    brought = gained_at_least(row, FEW, max(promised, depends) + seen.slack(row))
    assert brought <= max(promised, depends) + seen.slack(row)
    assert not promised or brought >= promised / 4 - seen.slack(row)
    if row.name == "rust":
        # one thread after the other: what each strands the next ones would have used
        assert brought > seen.slack(row)
        assert figures is not None
        assert figures["stranded_outside_bytes"] > 0


@each_row(*(row for row in ROWS if row.ours))
def test_other_settings_hold_what_they_promise(row: Row) -> None:
    """Those that few programs are given."""
    seen = looked(row)
    caches = seen.effects.get("shrink-thread-caches", 0)
    if caches:
        enough = caches + seen.slack(row)
        assert gained_at_least(row, SMALL_CACHES, enough) <= enough
    if "other-allocator" in seen.ids:
        with standing_still(row, {"LD_PRELOAD": ANOTHER}) as running:
            if "libjemalloc" not in Path(f"/proc/{running.pid}/maps").read_text():
                pytest.skip(f"{ANOTHER} is not installed")
            # of each size as much goes as stays: that is not what the advice is about, and nobody is promised anything
            assert seen.effects["other-allocator"] is None
            assert own_of(running) > 0.9 * seen.own
