"""What heap owners writes: the page, by what is in it and in a browser, and the profile, by two readers that know
nothing of whoever wrote it."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

import browser
import pytest
from looks import HERE, give_up
from shell_door import ask, look
from subjects import Subject

from arenascope.blocks.graph.holders import HolderNode
from arenascope.commands.owners import page

UNCACHED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


class Written(NamedTuple):
    page: Path
    profile: Path
    owners: dict[str, Any]
    """By name."""
    live: int
    first: int
    """What the program itself says of the first container."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("owners")
    page, profile = folder / "owners.html", folder / "owners.pb.gz"
    with Subject("cache", env=UNCACHED) as subject:
        words = f"owners --limit 0 --html {page} --pprof {profile}"
        document = ask(subject.pid, words)
        first = int((subject.folder / "truth" / "cache.txt").read_text().split()[1])
    assert document["html"] == {"file": str(page), "bytes": page.stat().st_size}
    assert document["pprof"] == {"file": str(profile), "bytes": profile.stat().st_size}
    return Written(page, profile, {each["name"]: each for each in document["owners"]}, document["live_bytes"], first)


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found[1])


class Row(NamedTuple):
    """A node, as the script of the page takes it."""

    name: str
    kind: str
    above: int
    blocks: int
    bytes: int
    resident: Optional[int]
    returns: Optional[int]


def test_the_page_asks_nobody(written: Written) -> None:
    text = written.page.read_text()
    assert "default-src 'none'" in text
    assert not re.findall(r"https?:|//[a-z]+\.|\bsrc=|\bhref=|url\(|@import|innerHTML", text)
    assert not re.findall(r"\bfetch\b|XMLHttp|WebSocket|sendBeacon|\bimport\(", text)


def test_the_tree_sums_up(written: Written) -> None:
    rows = [Row(*each) for each in data_of(written.page.read_text())["nodes"]]
    assert sum(each.bytes for each in rows if each.above < 0) == written.live
    below = [0] * len(rows)
    for at, each in enumerate(rows):
        assert each.above < at
        below[each.above] += each.bytes if each.above >= 0 else 0
    assert all(size <= each.bytes for size, each in zip(below, rows))
    (first,) = [each for each in rows if each.name == "first"]
    assert (first.kind, first.bytes) == ("global", written.first)
    assert first.returns == written.owners["first"]["returns_bytes"]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> tuple[Written, str]:
    """Of a program of which two variables lead to the same blocks; and what the screen says."""
    folder = tmp_path_factory.mktemp("together")
    page, profile = folder / "owners.html", folder / "owners.pb.gz"
    with Subject("web", "2000", env=UNCACHED) as subject:
        document = ask(subject.pid, f"owners --limit 0 --html {page} --pprof {profile}")
        table = look(subject.pid, "owners --limit 0 --bytes --table tsv").out
    owners = {each["name"]: each for each in document["owners"]}
    return Written(page, profile, owners, document["live_bytes"], first=0), table


def test_one_name_is_one_figure(together: tuple[Written, str]) -> None:
    """What owners hold, hold alone and would return is the same on the screen, in JSON, on the page and for pprof."""
    written, table = together
    rows = [Row(*each) for each in data_of(written.page.read_text())["nodes"]]
    types, samples = samples_of(written.profile)
    cells = [line.split("\t") for line in table.splitlines()]
    (headers,) = [each for each in cells if each[0].strip() == "whose"]
    named = {each[0].strip(" `"): dict(zip(headers, each)) for each in cells if len(each) == len(headers)}
    met = set()
    for at, row in enumerate(rows):
        owner = written.owners.get(row.name)
        if row.above >= 0 or owner is None or row.name is None:
            continue
        shared = sum(each.bytes for each in rows if (each.above, each.kind) == (at, "shared"))
        told = {"holds": row.bytes, "alone": row.bytes - shared, "would return": row.returns, "blocks": row.blocks}
        keys = ("held_bytes", "retained_bytes", "returns_bytes", "blocks")
        assert [owner[each] for each in keys] == [*told.values()], row
        of_pprof = [values for stack, values in samples if stack[-1] == row.name]
        for name in ("holds", "would return", "blocks"):
            column = types.index(name.replace(" ", "_"))
            assert sum(values[column] for values in of_pprof) == told[name], (row, name)
        on_screen = {name: int(re.sub(r"\D", "", named[row.name][name])) for name in told}
        assert on_screen == told
        met.add((row.name, shared > 0))
    assert met >= {("left", True), ("right", True)}
    assert any(not shared for _, shared in met)


def test_names_of_the_target_stay_text() -> None:
    wild = "</script><script>alert(1)</script><!--"
    facts = {"kind": "live", "pid": 1, "sentence": wild, "problems": [wild], "glibc": None, "taken": None}
    text = page(
        facts, [HolderNode(wild, "global", -1, 1, 1, held_blocks=1, held_bytes=1, resident=None, returns=None)]
    ).decode()
    assert wild not in text
    assert text.count("</script>") == 3  # the data, what all pages share, and its own
    assert data_of(text)["nodes"][0][0] == wild


@pytest.mark.full
def test_the_page_in_a_browser(written: Written, tmp_path: Path) -> None:
    told = browser.opened(written.page, tmp_path, (HERE / "play_owners.js").read_text())
    assert told.problems == []
    assert int(told.texts["tops"]) == written.live
    assert int(told.texts["first"]) == int(told.texts["rows"]) == written.first
    assert int(told.texts["returns"]) == written.owners["first"]["returns_bytes"]
    assert {told.texts[each] for each in ("widths", "folded", "again", "found")} == {"true"}


# the profile


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """A message as protobuf's encoding document has it: (field, number or bytes)."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        value: Any = number()
        if key & 7 == 2:
            at, value = at + value, data[at : at + value]
        else:
            assert key & 7 == 0
        yield key >> 3, value


def numbers(packed: bytes) -> list[int]:
    """Of a packed field: as many numbers, each as if its field's key stood in front."""
    found, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            value = shift = 0
    return found


def samples_of(profile: Path) -> tuple[list[str], list[tuple[list[str], list[int]]]]:
    """The types of a sample's values, the one shown first as the last; and the samples, each with its stack."""
    message = list(fields(gzip.decompress(profile.read_bytes())))
    texts = [value.decode() for field, value in message if field == 6]
    assert texts[0] == ""
    types = [texts[dict(fields(value))[1]] for field, value in message if field == 1]
    names = {dict(fields(value))[1]: texts[dict(fields(value))[2]] for field, value in message if field == 5}
    lines = {dict(fields(value))[1]: dict(fields(dict(fields(value))[4]))[1] for field, value in message if field == 4}
    assert texts[dict(message)[14]] == types[-1]
    samples = [dict(fields(value)) for field, value in message if field == 2]
    return types, [([names[lines[each]] for each in numbers(row[1])], numbers(row[2])) for row in samples]


def test_the_profile_read_back(written: Written) -> None:
    types, rows = samples_of(written.profile)
    assert types[-1] == "holds"
    assert sum(values[-1] for _, values in rows) == written.live
    of_first = [values for stack, values in rows if stack[-1] == "first"]
    assert sum(values[-1] for values in of_first) == written.first
    assert sum(values[types.index("would_return")] for values in of_first) == written.owners["first"]["returns_bytes"]


@pytest.mark.full
def test_pprof_reads_the_profile(written: Written) -> None:
    """Google's own, which Go brings."""
    if not shutil.which("go"):
        give_up("go is not installed, which has pprof")
    done = subprocess.run(
        ["go", "tool", "pprof", "-top", "-cum", "-unit=B", str(written.profile)],
        text=True,
        capture_output=True,
        check=True,
    )
    assert "Type: holds" in done.stdout
    cumulated = dict(re.findall(r"(\d+)B +[\d.]+% +(\S.*)$", done.stdout, re.MULTILINE))
    assert {name: int(size) for size, name in cumulated.items()}["first"] == written.first
