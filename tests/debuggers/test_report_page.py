"""The page of `heap report --html`: each figure on it is one of a command's JSON, in every door; nothing of the target
becomes markup or script."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import browser
import pytest
from doors import DOORS, NEWEST, Core, Live, give_up
from looks import HERE
from partial import look
from schemas import valid
from subjects import Subject

from arenascope.present.glossary import words
from arenascope.present.pages.fill_page import filled
from arenascope.present.shared_text.text import Style

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


def answered(subject: Path, words: str) -> dict[str, Any]:
    code, said, complained = look(subject, f"{words} --json")
    assert code in (0, 1), complained
    return valid(json.loads(said))


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
        documents = {"report": answered(itself, f"report --html {file}")}
        documents |= {name: answered(itself, ASKED[name]) for name in FEW}
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


def wild(data: Any, times: int) -> Any:
    """Every name of the target's as somebody might choose it; 100 arenas and `times` types."""
    if isinstance(data, dict):
        named = {key: wild(value, times) for key, value in data.items()}
        if "system_bytes" in named and "index" in named:
            named["threads"] = [{"tid": 1, "name": WILD}] * 5
        return named
    if isinstance(data, list):
        rows = [wild(each, times) for each in data]
        if rows and isinstance(rows[0], dict) and "holds_back_bytes" in rows[0]:
            return [{**rows[each % len(rows)], "type": f"{WILD}{each}", "bytes": each * 640} for each in range(times)]
        return rows * 100 if rows and isinstance(rows[0], dict) and "index" in rows[0] else rows
    return WILD if isinstance(data, str) and not re.fullmatch(r"0x[0-9a-f]+|[a-z-]+", data) else data


@pytest.mark.xdist_group("report page")
def test_names_of_the_target_stay_text(written: Written) -> None:
    data = {**written.data, "documents": wild(written.data["documents"], 20)}
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
        documents = {"report": answered(itself, f"report --html {file}")}
        documents |= {name: answered(itself, words) for name, words in ASKED.items()}
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
    check_what_a_reader_has_to_find(told["said"], documents)
    parts = [each for each in documents["report"]["parts"] if each["bytes"]]
    assert [words for words, _ in told["legend"]] == [f"{each['label']} {style.size(each['bytes'])}" for each in parts]
    assert [colour for _, colour in told["legend"]] == told["slices"]
    check_words(told)
    keys = {key: value for key, value, _ in figures}
    for question, shown in QUESTIONS.items():
        assert {*shown} <= keys.keys() or shown is PINS, question  # here none does
    assert keys["leaks/leaks/0/blocks"] == 1500
    # its declared names: by which way 5,000 quotes are held
    node = re.escape("std::unordered_map<std::string, std::unique_ptr<Quote>> node")
    for row in (rf"^{node} \|(.* \|)? 5,000 \| ", r"^g_quotes \| 5,000 \| "):
        assert re.search(row, told["said"], re.MULTILINE), row
    assert keys["owners/owners/0/retained_bytes"] == documents["owners"]["owners"][0]["retained_bytes"]


def check_words(told: dict[str, Any]) -> None:
    """Each word of malloc's is explained at the pointer, and on paper; one word for one thing."""
    meanings = {name: word.meaning for word in words() for name in word.names}
    assert {"stranded", "tcache", "arenas", "resident", "held"} <= {
        *(name for name, _ in told["glossed"]),
        *(name for word in words() for name in word.names if word.names[0] in dict(told["words"])),
    }
    assert told["glossed"]
    assert all(spoken(title) == spoken(meanings[name]) for name, title in told["glossed"])
    # where the page is written by the shell, so are the commands on it
    assert "heap help" not in told["said"]
    assert not re.findall(r"\bheap (trim|params|chunks|check|leaks|save|diff|map) ?[-A-Z]*\b", told["said"])
    outside = {name: re.split("`[^`]+`", meaning) for name, meaning in meanings.items()}
    assert all(piece in meaning for name, meaning in told["words"] for piece in outside[name])
    explained = {name for name, title in told["headings"] if title}
    assert {"holds", "would return", "holds back", "retained", "stranded", "resident", "top", "bins"} <= explained
    assert (told["folded-on-paper"], told["open"]) == (0, 0)
    said = told["said"]
    assert len(re.findall(r"[0-9.]+ m?s, once, ", said)) == 2
    for another in ("held for", "malloc holds", "checks hold", "of 8 hold", "vtable for"):
        assert another not in said


def spoken(meaning: str) -> str:
    """Without commands, which each door's page has as they are typed there."""
    return re.sub("`[^`]+`", "", meaning)


def check_what_a_reader_has_to_find(said: str, documents: dict[str, dict[str, Any]]) -> None:
    """What somebody with the page alone was held up by. Of the subject, 1,500 of 1,701 requests were dropped, each with
    a body, and its variable g_quotes holds the most."""
    style, held = Style(), documents["report"]["held"]
    lines = said.splitlines()
    assert [each for each in lines if each.startswith("Request |") and "nobody (1,500 of 1,701)" in each]
    assert re.search("1,500 blocks of Request with 1,500 blocks ", said)
    brings = next(each["effect_bytes"] for each in documents["report"]["advice"] if each["id"] == "mend-leak")
    assert f"malloc_trim(0) called, {style.size(brings)} leaves memory" in said
    assert documents["params"]["note"] in said
    why = said[said.index("\nWhy it stays\n") : said.index("\nWhat to do\nfix")]
    assert "g_quotes holds" in why
    assert {"held-by-owner", "lost-blocks"} <= {each["id"] for each in documents["report"]["causes"]}
    for name in ("holds back", "would return", "retained", "lost with them", "stranded"):
        assert [each for each in lines if f"{name}: " in each], name
    assert f"{style.size(held['live_bytes'])} in blocks" in said
    assert [each for each in lines if each.startswith("libstdc++'s emergency pool |")]
    figures = documents["params"]["note_record"]["figures"]
    assert re.search(rf"\b{figures['arenas_each']} .*\b{figures['processors']} processor", said)
    assert all(f"\n{row['name']} | " in said for row in documents["params"]["params"])


@pytest.mark.full
@pytest.mark.xdist_group("report page")
def test_a_large_page_of_wild_names(written: Written, tmp_path: Path) -> None:
    """100 arenas and 1,000 types, of which a few rows are shown at first."""
    file = tmp_path / "wild.html"
    data = {**written.data, "documents": wild(written.data["documents"], 1000)}
    file.write_bytes(filled("report", data, "heap report"))
    told = played(file, tmp_path)
    assert told["problems-told"] == []
    assert (told["at-first"], told["in-all"]) == (12, 1000)
    assert told["strangers"] == 0
    assert (
        sum(key.startswith("arenas/arenas/") and key.endswith("system_bytes") for key, _, _ in told["figures"]) == 100
    )


@pytest.mark.full
def test_every_door_writes_the_same(tmp_path: Path) -> None:
    pages = {}
    with Subject("quotes", "300", "90") as subject:
        file = tmp_path / "live.html"
        (outcome,) = DOORS["gdb"].run(Live(subject.pid, subject.program), [f"report --json --html {file}"])
        assert data_of(file.read_text())["problems"] == outcome.json()["problems"] == []
        core = Core(subject.kernel_core(), subject.program)
        for name in NEWEST:
            if DOORS[name].available():
                give_up(DOORS[name].available() or "")
            file = tmp_path / f"{name}.html"
            (outcome,) = DOORS[name].run(core, [f"report --json --html {file}"])
            assert outcome.json()["html"]["bytes"] == file.stat().st_size
            pages[name] = data_of(file.read_text())["documents"]
    # each names the next step as it is typed there
    assert all(advice.pop("how") for each in pages.values() for advice in each["report"]["advice"])
    # the shell reads no locals: what they alone lead to has another name there
    for part in ("types", "advice"):
        pages["shell"]["report"][part] = pages["gdb"]["report"][part]
    for section in ("report", "arenas", "trim", "params", "leaks"):
        documents = [each[section] for each in pages.values()]
        assert all(each == documents[0] for each in documents), section


@pytest.mark.full
def test_what_cannot_be_told_says_why(tmp_path: Path) -> None:
    core, file = tmp_path / "core", tmp_path / "page.html"
    with Subject("quotes") as subject:
        assert look(Path(str(subject.pid)), f"save {core} --redact")[0] == 0
    assert answered(core, f"report --html {file}")["types"] is None
    documents = data_of(file.read_text())["documents"]
    assert all("--redact" in documents[name]["failed"] for name in ("types", "owners", "containers", "leaks"))
    assert documents["arenas"]["arenas"][0]["index"] == 0
    dom = browser.opened(file, tmp_path)
    assert (dom.ready, dom.texts["sentence"]) == ("yes", documents["report"]["verdict"])
    assert dom.canvases == 1
