"""What walkers and checks find has words for each of its ids, and the figures that those name."""

from __future__ import annotations

import re

from arenascope.base.heap_model import Finding, Statement, cannot_read
from arenascope.present.shared_text.problem_sentences import finding_words, sentence


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
