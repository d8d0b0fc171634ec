"""arenascope watch --save and heap trend: what grew, since when, by the kernel's count; restarts, limits, the page."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Union

import pytest
from browser import opened
from control_groups import memory_group
from looks import HERE
from schemas import valid, valid_snapshot
from shell_door import arenascope, begin
from subjects import Subject

from arenascope.cli.watch import NOTHING_GROWS
from arenascope.present.json_documents import snapshot_file
from arenascope.present.shared_text.lines_and_tables import Style
from arenascope.sources.live.cgroups import memory_limit

MIB = 1 << 20
PLAY = HERE / "play_trend.js"


def watch(
    subject: Union[Subject, subprocess.Popen[str]],
    folder: Optional[Path],
    looks: int,
    after_each: Callable[[int], None],
    *words: str,
) -> str:
    """Looks so often and keeps each, where there is a folder; what was said on standard error."""
    words = (*words, *(["--save", folder] if folder is not None else []))
    with begin("watch", subject.pid, "--interval", 0.2, "--count", looks, *words) as watching:
        number = 0
        for line in watching.stdout:
            if line.split()[0] != "time":
                after_each(number)
                number += 1
        said = watching.stderr.read()
    assert (watching.returncode, number) == (0, looks), said
    return said


def trend(folder: Path, *words: str) -> dict[str, Any]:
    return valid(json.loads(arenascope("trend", folder, *words, "--json").stdout))


def nothing(number: int) -> None:
    pass


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A table that grew after each look from the fourth on; by how much."""
    folder = tmp_path_factory.mktemp("trend") / "moments"
    counted = []
    with Subject("mystery", "map", "8") as subject:

        def grow(number: int) -> None:
            counted.append(subject.rollup("Anonymous"))
            if number > 2:
                subject.send("tick")

        said = watch(subject, folder, 9, grow)
    assert f" trend {folder}" in said
    return folder, counted[-1] - counted[0]


@pytest.mark.xdist_group("trend")
def test_what_grew_by_the_kernels_count(grown: tuple[Path, int]) -> None:
    folder, bytes_more = grown
    document = trend(folder)
    assert document["process"]["snapshots"] == 9
    assert document["process"]["name"] == "mystery"
    series = {(each["by"], each["name"]): each for each in document["series"]}
    live = series["part", "live"]
    assert abs(live["change"] - bytes_more) <= MIB // 2
    assert live["how"] == "steadily"
    # the last look before the first tick was the fourth
    assert live["since"] in [seconds for seconds, _ in live["moments"][2:5]]
    assert abs(series["rss", "rss"]["change"] - bytes_more) <= MIB // 2
    assert document["judgement"]["id"] == "grew-steadily"
    parts = [each for (by, _), each in series.items() if by == "part"]
    rss = series["rss", "rss"]["moments"]
    for index, (_, value) in enumerate(rss):
        assert sum(each["moments"][index][1] for each in parts) == value


@pytest.mark.full
def test_types_and_owners_are_kept_where_they_are_asked_for(tmp_path: Path) -> None:
    with Subject("busy") as subject:
        held = int((subject.folder / "truth" / "busy.txt").read_text().split()[0])
        watch(
            subject, tmp_path, 3, lambda number: subject.send("tick") and None, "--owners", "--types", "--interval", "2"
        )
        assert subject.quit() == 0
    documents, wrong = snapshot_file.read_all(str(tmp_path))
    assert (len(documents), wrong) == (3, [])
    for document in documents:
        valid_snapshot(dict(document))
    (series,) = [each for each in trend(tmp_path)["series"] if (each["by"], each["name"]) == ("owner", "sessions")]
    values = [value for _, value in series["moments"]]
    assert values[0] == held
    # a tick adds one in a hundred
    assert all(1.009 < after / before < 1.013 for before, after in zip(values, values[1:]))


@pytest.mark.full
def test_watch_and_trend_name_what_grows_and_whose_it_is(tmp_path: Path) -> None:
    """By the kernel's count, within one look: where this machine is busy one may begin before all has grown."""
    counted = []
    with Subject("mystery", "map", "2") as subject:

        def grow(number: int) -> None:
            counted.append(subject.rollup("Anonymous"))
            for _ in range(2):
                subject.send("tick")

        said = watch(subject, tmp_path, 4, grow, "--types", "--owners", "--interval", "3")
    (grown,) = trend(tmp_path)["grown"]
    assert (grown["owner"], grown["owner_kind"]) == ("table", "global")
    assert "node" in grown["type"]
    assert 0.9 * (counted[-2] - counted[0]) < grown["bytes"] < 1.1 * (counted[-1] - counted[0])
    headline = said.splitlines()[-2]
    assert "`table`" in headline
    assert f"({grown['blocks']:+,} blocks" in headline


def test_watch_keeps_types_and_owners_where_a_look_costs_little(tmp_path: Path) -> None:
    saved = [tmp_path / name for name in ("unasked", "without", "often")]
    with Subject("mystery", "map", "2") as subject:
        for _ in range(2):
            said = watch(subject, saved[0], 1, nothing, "--interval", "60")
            assert "--types" not in said
            subject.send("tick")
        watch(subject, saved[1], 1, nothing, "--interval", "60", "--no-types")
        often = watch(subject, saved[2], 3, nothing)
    documents, _ = snapshot_file.read_all(str(saved[0]))
    assert [(bool(each["types"]), bool(each["owners"])) for each in documents] == [(True, True)] * 2
    assert [each["owner"] for each in trend(saved[0])["grown"]] == ["table"]
    for folder, looks in ((saved[1], 1), (saved[2], 3)):
        documents, _ = snapshot_file.read_all(str(folder))
        assert [{"types", "owners"} & each.keys() for each in documents] == [set()] * looks
    # why, once, and what has them
    assert (often.count("--types"), len(re.findall(r"--interval \d+", often))) == (1, 1)


@pytest.mark.full
def test_of_what_does_not_grow_nothing_is_named(tmp_path: Path) -> None:
    with Subject("bins") as subject:
        said = watch(subject, tmp_path, 3, nothing, "--types", "--owners")
    assert trend(tmp_path)["grown"] == []
    assert "blocks" not in said
    assert said.count(NOTHING_GROWS) == 1
    # no look is done in the interval that was asked for
    assert len(re.findall(r"\b0\.2 s.* \d+ ms\b", said)) == 1


def test_started_again(tmp_path: Path) -> None:
    pids = []
    for _ in range(2):
        with Subject("bins") as subject:
            watch(subject, tmp_path, 2, nothing)
            pids.append(subject.pid)
    document = trend(tmp_path)
    assert [each["pid"] for each in document["earlier"]] == pids[:1]
    assert document["process"]["pid"] == pids[1]
    assert document["others"] == []
    assert trend(tmp_path, "--pid", str(pids[0]))["process"]["snapshots"] == 2


@pytest.fixture
def group() -> Iterator[Path]:
    yield from memory_group("test")


def test_the_limit_of_its_control_group(group: Path, tmp_path: Path) -> None:
    name = "memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes"
    with Subject("mystery", "map", "8") as subject:
        (group / name).write_text(str(300 * MIB))
        (group / "cgroup.procs").write_text(str(subject.pid))
        limit = memory_limit(subject.pid)
        watch(subject, tmp_path, 4, lambda number: subject.send("tick") and None)
    assert limit is not None
    assert (limit.path, limit.bytes) == (str(group / name), 300 * MIB)
    document = trend(tmp_path)
    assert document["limit"]["bytes"] == 300 * MIB
    # what it had before it came into the group is not counted against it
    assert 0 < document["limit"]["used"] < 40 * MIB
    assert document["reaches"]["room"] > 250 * MIB
    assert 0 < document["reaches"]["soonest"] <= document["reaches"]["likely"] <= document["reaches"]["latest"]


@pytest.mark.full
@pytest.mark.xdist_group("trend")
def test_the_page_shows_the_documents_figures(grown: tuple[Path, int], tmp_path: Path) -> None:
    folder, _ = grown
    page = tmp_path / "page.html"
    document = trend(folder, "--html", str(page))
    dom = opened(page, tmp_path, PLAY.read_text())
    assert dom.texts["title"] == document["verdict"]
    assert dom.problems == []
    style = Style()
    rows = json.loads(dom.texts["rows"])
    for each in document["series"]:
        if each["by"] != "rss":
            assert [style.size(each["before"]), style.size(each["after"])] in [row[1:3] for row in rows], each["name"]
    assert len(rows) == len(document["series"]) - 1
    assert int(dom.texts["polygons"]) == len([each for each in document["series"] if each["by"] == "part"])
    assert dom.texts["zoomed"] == "true"
    assert dom.texts["whole-again"] == "true"
    assert dom.texts["single"] == "1"
    (first, last), *axes = json.loads(dom.texts["moments"])
    for shown in axes:
        # told as the sentence tells them, and none over another
        if time.localtime(first)[:3] == time.localtime(last)[:3]:
            assert shown[0][0] == time.strftime("%H:%M:%S", time.localtime(first))
        assert len({told for told, _, _ in shown}) == len(shown) >= min(2, 1 + int(last) - int(first))
        assert all(one[2] < other[1] for one, other in zip(shown, shown[1:]))
