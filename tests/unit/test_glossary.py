"""The words on the screens: each heading of a table is explained, and each door explains it."""

from __future__ import annotations

import json
import re
from typing import Iterator

import pytest
from fake_door import run_text
from heap_mixtures import everything

from arenascope.analysis.resident_parts import PARTS
from arenascope.cli import main as cli
from arenascope.cli import top, watch
from arenascope.cli.json_schemas import schemas
from arenascope.commands.framework.find_command import COMMAND_NAMES, all_commands, find_command
from arenascope.commands.framework.overview import help_text
from arenascope.present.glossary import IN_JSON, find_word, words
from arenascope.present.shared_text.lines_and_tables import Style

LOOKS = (
    *(name for name in COMMAND_NAMES if all(each.is_option for each in find_command(name).arguments)),
    "report --full",
    "trim --ranges",
    "chunks --summary",
    "chunks --exact",
    "pins --own",
    "arenas --quick",
)
DRAWN = {"", "█ used ░ free"}
"""Bars, of which one has its own legend."""


def headings(text: str) -> Iterator[str]:
    """Of each table: the cells above its rule."""
    lines = ["", *text.splitlines()]
    for before, above, rule in zip(lines, lines[1:], lines[2:]):
        # a table's second rule stands above its sums
        if not before and re.fullmatch(r"-+(?:  ?-+)*", rule):
            ends = [each.span() for each in re.finditer("-+", rule)]
            if len(ends) > 1:
                yield from (above[start:end].strip() for start, end in ends)


def test_every_heading_is_explained() -> None:
    target = everything("2.36-64").target()
    found = {heading for look in LOOKS for heading in headings(run_text(target, *look.split()))}
    assert {"system", "stranded", "would return", "chunk size", "asked for", "accessible"} <= found
    found |= {
        *watch.HEADERS,
        *(each.title for each in top.columns(Style(), True)),
        "per hour",
        "a cell",
        "RSS falls",
        "first word",
    }
    assert not {each for each in found - DRAWN if not find_word(each)}, "a word in glossary.md explains it"


def test_each_name_leads_to_one_word() -> None:
    names = [name.lower() for word in words() for name in word.names]
    assert sorted(names) == sorted(set(names))
    assert [word.names[0].lower() for word in words()] == sorted(word.names[0].lower() for word in words())


def test_each_key_leads_to_the_word_of_the_screens() -> None:
    keys = {key: word for word, keys in IN_JSON.items() for key in keys}
    assert len(keys) == sum(map(len, IN_JSON.values()))
    names = {name for word in words() for name in word.names}
    for key, name in keys.items():
        said = help_text("arenascope", all_commands(), [key])
        assert find_word(key) is find_word(name)
        assert name in said
        assert f"`{key}`" in said
        assert key not in names - {"live"}
    assert help_text("arenascope", all_commands(), ["stranded"]) == help_text("arenascope", all_commands(), ["scraps"])
    described = schemas()["report"]["$defs"]["ResidentPart"]["properties"]["part"]["description"]
    assert "scraps: stranded" in described
    assert "stood still" in schemas()["arenas"]["$defs"]["envelope"]["properties"]["held_seconds"]["description"]


def test_each_key_is_written() -> None:
    """In the schemas, as a figure or as a part; a figure of a part has its name."""
    written = {*PARTS, *(f"{part}_bytes" for part in PARTS)}
    written |= set(re.findall(r'"(\w+)": {', json.dumps(schemas())))
    assert {key for keys in IN_JSON.values() for key in keys if key.rpartition(".")[2] not in written} == set()


def test_every_door_explains(capsys: pytest.CaptureFixture[str]) -> None:
    """One word, by any of its names, and all of them: the same in the shell and in a debugger."""
    for typed in ("stranded", "Main arena", "main_arena", "--tops", "words"):
        asked = ["help", "--", *typed.split()] if typed[0] == "-" else ["help", *typed.split()]
        assert cli.main(asked) == 0
        shell = capsys.readouterr().out
        assert shell == help_text("arenascope", all_commands(), typed.split())
        debugger = help_text("heap", all_commands(), typed.split())
        assert shell.replace("`arenascope", "`heap").split() == debugger.split()
        assert max(map(len, shell.splitlines())) < 80
    assert help_text("heap", all_commands(), ["words"]).count("\n    ") > len(words())
    assert "--apply" in help_text("heap", all_commands(), ["trim"])
    assert cli.main(["help", "no", "such"]) == 2
    assert "'no such'" in capsys.readouterr().err
