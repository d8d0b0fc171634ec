"""What walkers and checks find has words for each of its ids, and the figures that those name."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator

import arenascope
from arenascope.base.model import Finding, Statement, cannot_read
from arenascope.commands.params import NOTES
from arenascope.present.screens import evidence
from arenascope.present.shared_text.breaches import BREACHES, EXPECTED
from arenascope.present.shared_text.findings import WORDS, finding_words
from arenascope.present.shared_text.problems import SENTENCES, sentence

GLIBC = Path(next(iter(arenascope.__path__))) / "glibc"
CHECKS = GLIBC / "check"
ADDED = {"kind", "list", "sized", "unread", "bin"}
"""What does not stand where the finding is made."""
MAKERS = ("Statement", "cannot_read", "say", "_say", "doubt", "_each")
BY_SYMBOL = {"symbol-leads-here", "by-symbol-distance"}
"""Constants, which no function makes."""
SAID_AT_ONCE = {"not-proven"}
"""What comes in words of its own."""
RING = ("no-heap-info", "heap-info-of-another")
"""What may be said of an arena, and of one that the ring led to."""


def made() -> Iterator[tuple[str, set[str]]]:
    """Each id that a walker gives a finding, and the names of all figures in that function."""
    for path in sorted(set(GLIBC.rglob("*.py")) - set(CHECKS.glob("*.py"))):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            words = [each for each in ast.walk(function) if isinstance(each, ast.Dict)]
            figures = {key.value for each in words for key in each.keys if isinstance(key, ast.Constant)}
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and call.args:
                    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                    said = call.args[1] if name == "say" and len(call.args) > 1 else call.args[0]
                    if name in MAKERS:
                        either = (said.body, said.orelse) if isinstance(said, ast.IfExp) else (said,)
                        yield from ((each.value, figures) for each in either if isinstance(each, ast.Constant))


def test_every_id_has_words_and_every_word_its_figure() -> None:
    found = {id: figures for id, figures in made() if id not in {*SENTENCES, *NOTES} and " " not in id}
    found.update({f"ring-{id}": found[id] for id in RING})
    assert set(found) | BY_SYMBOL == set(WORDS) | set(evidence.WORDS) | SAID_AT_ONCE
    assert not set(WORDS) & set(evidence.WORDS)
    for id, words in [*WORDS.items(), *EXPECTED.items()]:
        needed = set(re.findall(r"{(\w+)", words)) - ADDED
        assert needed <= found[id] | ({"arena_behind"} if id in RING else set()), id


def test_every_word_on_a_breach_has_its_check() -> None:
    """That each breach has words shows wherever one is made: `check` cannot answer without."""
    constants = {
        each.value
        for path in CHECKS.glob("*.py")
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    assert set(BREACHES) <= constants - set(WORDS)


def test_a_finding_names_its_rule_and_what_exactly() -> None:
    """The id is the rule's, or what is not known; which of those that break it stands among the names."""
    what = Statement("link-misaligned", {"bin": 3}, {"list": "tcache"})
    said = Finding(what, 0x5010, rule="tcache-link").statement
    assert said == Statement(
        "tcache-link", {"bin": 3}, {"what": "link-misaligned", "address": "0x5010", "list": "tcache"}
    )
    assert sentence(said) == f"{finding_words(what)} at 0x5010"
    said = Finding(cannot_read("bins-unreadable", 0x7000, 2032), 0x6000, arena=2).statement
    assert (said.id, said.figures) == ("unreadable", {"arena": 2, "bytes": 2032})
    assert re.findall(r"\b(?:0x)?\d+", sentence(said)) == ["2", "2032", "0x7000", "0x6000"]
