"""The page of `heap report --html`: each figure on it is one of a command's JSON, in every door; nothing of the target
becomes markup or script."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import browser
import pytest
from looks import HERE
from shell_door import ask, look
from subjects import Subject

from arenascope.present.pages.fill_page import filled
from arenascope.present.shared_text.lines_and_tables import Style

PLAY = HERE / "play_report.js"
ASKED = {
    "arenas": "arenas",
    "trim": "trim",
    "params": "params",
    "version": "version",
    "types": "types --owners --limit 1000",
    "pins": "pins --owners",
    "owners": "owners --limit 1000",
    "containers": "containers --limit 100",
    "leaks": "leaks",
    "map": "map",
}
"""Each section, and the command whose figures it shows."""
FEW = ("arenas", "trim", "owners", "leaks")
"""Of these where all are compared in test_every_figure_is_one_of_a_commands_json."""
PINS = ("pins/pins/0/releases_bytes", "pins/pins/0/user_address")
QUESTIONS = {
    "why did malloc_trim return so little": ("trim/totals/resident_bytes", "trim/arenas/0/madvise_bytes"),
    "why does it stay": ("report/parts/0/bytes", "report/rss_bytes", "arenas/totals/bins/bytes"),
    "where is the cut-off, and did a tunable move it": ("params/params/0/value", "params/params/0/default"),
    "how many arenas, and why": ("params/arenas/count", "params/arenas/limit", "arenas/arenas/0/system_bytes"),
    "which block keeps it from going back": PINS,
    "which objects": ("types/types/0/bytes", "types/types/0/holds_back_bytes"),
    "what are my blocks": ("types/types/0/blocks", "types/types/0/bytes"),
    "why does it grow": ("containers/containers/0/elements", "containers/containers/0/held_bytes"),
    "who holds it, and what does nobody hold": ("owners/owners/0/returns_bytes", "leaks/leaks/0/indirect_bytes"),
}
"""Of docs/questions.md, and figures that answer them."""
WILD = '</script><script>alert(1)</script><!--<img src=x onerror="document.title=1"> @DATA@ @INCLUDE strips.js@ @TITLE@'
ENVELOPE = (
    "schema",
    "command",
    "door",
    "complete",
    "problems",
    "problem_records",
    "target",
    "glibc",
    "held_seconds",
    "rules",
)


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


class Written(NamedTuple):
    page: Path
    documents: dict[str, dict[str, Any]]
    """What the commands said by themselves; of report, what it said as it wrote the page."""

    @property
    def data(self) -> dict[str, Any]:
        return data_of(self.page.read_text())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    file = tmp_path_factory.mktemp("report") / "page.html"
    with Subject("cache") as subject:
        itself = Path(str(subject.pid))
        documents = {"report": ask(itself, f"report --html {file}", status=(0, 1))}
        documents |= {name: ask(itself, ASKED[name], status=(0, 1)) for name in FEW}
    assert documents["report"]["html"] == {"file": str(file), "bytes": file.stat().st_size}
    return Written(file, documents)


@pytest.mark.xdist_group("report page")
def test_the_page_has_the_commands_own_documents(written: Written) -> None:
    data = written.data
    for name, document in written.documents.items():
        shown = data["documents"][name]
        for key, value in document.items():
            if key not in (*ENVELOPE, "html"):
                assert shown[key] == value, f"{name}: {key}"
    assert data["held"] == pytest.approx(written.documents["report"]["held_seconds"])
    assert data["problems"] == []
    assert [command for each in data["ways"] for _, command in each if command]


@pytest.mark.xdist_group("report page")
def test_the_page_loads_nothing_from_elsewhere(written: Written) -> None:
    text = written.page.read_text()
    assert "default-src 'none'" in text
    assert "@INCLUDE" not in text
    assert not re.findall(r"https?:|//[a-z]+\.|\bsrc=|\bhref=|url\(|@import|innerHTML", text)
    assert not re.findall(r"\bfetch\b|XMLHttp|WebSocket|sendBeacon|\bimport\(", text)


def wild(data: Any) -> Any:
    """Every name of the target's as somebody might choose it."""
    if isinstance(data, dict):
        return {key: wild(value) for key, value in data.items()}
    if isinstance(data, list):
        return [wild(each) for each in data]
    return WILD if isinstance(data, str) and not re.fullmatch(r"0x[0-9a-f]+|[a-z-]+", data) else data


@pytest.mark.xdist_group("report page")
def test_names_of_the_target_stay_text(written: Written) -> None:
    data = {**written.data, "documents": wild(written.data["documents"])}
    text = filled("report", data, "heap report").decode()
    assert WILD not in text
    assert text.count("</script>") == 3  # the data, what all pages share, and its own
    assert data_of(text) == data


# in a browser


def at(document: Any, key: str) -> Any:
    for name in key.split("/"):
        document = document[int(name)] if isinstance(document, list) else document[name]
    return document


def played(file: Path, folder: Path) -> dict[str, Any]:
    dom = browser.opened(file, folder, PLAY.read_text())
    assert dom.ready == "yes"
    return {
        name: json.loads(text) if text[:1] in "[{" or text.isdecimal() else text for name, text in dom.texts.items()
    }


@pytest.mark.full
@pytest.mark.xdist_group("report page")
def test_every_figure_is_one_of_a_commands_json(tmp_path: Path) -> None:
    file, style = tmp_path / "page.html", Style()
    with Subject("quotes") as subject:
        itself = Path(str(subject.pid))
        documents = {"report": ask(itself, f"report --html {file}", status=(0, 1))}
        documents |= {name: ask(itself, words, status=(0, 1)) for name, words in ASKED.items()}
    told = played(file, tmp_path)
    assert told["problems-told"] == []
    assert told["answer"] == documents["report"]["verdict"]
    keeper = documents["report"]["held"]["owners"][0]
    assert keeper["name"] in told["holder"]
    assert style.size(keeper["held_bytes"]) in told["holder"]
    assert set(ASKED) - {"version", "map"} < set(told["sections"])
    figures = told["figures"]
    assert len(figures) > 150
    words = {None: {"?", "none"}, 0: {"0 B", "0", "no"}}
    for key, value, text in figures:
        assert value == at(documents, key), key
        shown = {style.size(value), f"{value:,}"} if isinstance(value, int) else {value}
        assert text in words.get(value, shown), key
    totals = documents["map"]["totals"]
    layers = {layer: size for layer, size in told["totals"].items() if f"{layer}_bytes" in totals}
    assert layers == {layer: totals[f"{layer}_bytes"] for layer in layers}
    assert {"used", "free", "top", "resident", "releasable"} <= set(layers)
    assert (told["falling"], told["rising"]) == (sorted(told["falling"], reverse=True), sorted(told["rising"]))
    assert told["copied"] == next(
        command for each in data_of(file.read_text())["ways"] for _, command in each if command
    )
    # it goes to others, who have arenascope elsewhere
    assert "bin/arenascope" not in file.read_text()
    assert told["button"] == "copied"
    parts = [each for each in documents["report"]["parts"] if each["bytes"]]
    assert [words for words, _ in told["legend"]] == [f"{each['label']} {style.size(each['bytes'])}" for each in parts]
    assert [colour for _, colour in told["legend"]] == told["slices"]
    keys = {key: value for key, value, _ in figures}
    for question, shown in QUESTIONS.items():
        assert {*shown} <= keys.keys() or shown is PINS, question  # here none does
    assert keys["leaks/leaks/0/blocks"] == keys["report/findings/0/blocks"] == 1500
    assert documents["report"]["findings"][0]["reason"] == "lost"
    # its declared names: by which way 5,000 quotes are held
    node = re.escape("std::unordered_map<std::string, std::unique_ptr<Quote>> node")
    for row in (rf"^{node} \|(.* \|)? 5,000 \| ", r"^g_quotes \| 5,000 \| "):
        assert re.search(row, told["said"], re.MULTILINE), row
    assert keys["owners/owners/0/retained_bytes"] == documents["owners"]["owners"][0]["retained_bytes"]


@pytest.mark.full
def test_what_cannot_be_told_says_why(tmp_path: Path) -> None:
    core, file = tmp_path / "core", tmp_path / "page.html"
    with Subject("quotes") as subject:
        assert look(subject.pid, f"save {core} --redact")[0] == 0
    report = ask(core, f"report --html {file}")
    assert (report["types"], report["findings"]) == (None, None)
    documents = data_of(file.read_text())["documents"]
    assert all("--redact" in documents[name]["failed"] for name in ("types", "owners", "containers", "leaks"))
    assert documents["arenas"]["arenas"][0]["index"] == 0
    dom = browser.opened(file, tmp_path)
    assert (dom.ready, dom.texts["sentence"]) == ("yes", documents["report"]["verdict"])
    assert dom.canvases == 1
