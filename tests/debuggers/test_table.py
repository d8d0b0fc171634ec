"""--table: a screen's tables in a format that a ticket takes, in every door."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from doors import DOORS, NEWEST, Live
from looks import one_line, opened
from marks import full_after
from subjects import Subject


class Tables(HTMLParser):
    """The rows of every table, as a reader of HTML that knows nothing of tabulate has them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.tables[-1][-1][-1] += data.strip()


@pytest.mark.parametrize("name", full_after(1, NEWEST))
def test_a_screen_as_html_tsv_and_markdown(name: str, subject: Subject) -> None:
    door = opened(DOORS[name])
    html, tsv, github, threads, heaps, wrong = door.run(
        Live(subject.pid, subject.program),
        [
            "threads --table html --bytes",
            "heaps --table tsv",
            "heaps --table=github",
            "threads --json",
            "heaps --json",
            "threads --table nonsense",
        ],
    )
    parser = Tables()
    parser.feed(html.text)
    (table,) = parser.tables
    assert table[0] == ["tid", "name", "arena", "cache at", "chunks", "bytes"]
    assert [row[0] for row in table[1:]] == [str(each["tid"]) for each in threads.json()["threads"]]
    assert [row[5] for row in table[1:]] == [f"{each['tcache']['bytes']:,}" for each in threads.json()["threads"]]
    # other lines stay text
    assert html.text.split("<table>")[0].strip()
    addresses = [each["address"] for each in heaps.json()["heaps"]]
    assert [line.split("\t")[1] for line in tsv.text.splitlines() if "\t" in line] == ["from", *addresses]
    marked = [line.split("|")[2].strip() for line in github.text.splitlines() if line.startswith("|")]
    assert marked[2:] == addresses
    assert "github" in one_line(wrong)
