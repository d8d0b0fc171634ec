"""CONTRIBUTING's "Where you go": of a change that takes several places, the one that was forgotten is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterable

import pytest

from arenascope.analysis import advice, causes
from arenascope.analysis.report import PARTS
from arenascope.glibc.find.allocators import KINDS
from arenascope.present.screens.advice import ADVICE
from arenascope.present.screens.owner_advice import OWNERS
from arenascope.present.screens.parts import LABELS
from arenascope.present.screens.verdict import CAUSES

TESTS = Path(__file__).resolve().parents[1]
NOT_SAID = {"live-grew"}
"""What another module says, and this one asks."""
NOT_TO_BE_HAD = {"MemorySanitizer", "LeakSanitizer", "Scudo", "snmalloc", "rpmalloc", "tbbmalloc"}
"""Known by what their sources say: Debian has no program or library that these tests could run with them."""


def ids_in(module: object) -> set[str]:
    text = Path(str(getattr(module, "__file__", ""))).read_text()
    return set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text)) - NOT_SAID


def untested(names: Iterable[str]) -> set[str]:
    """Which of these stand in no test but here."""
    tests = "\n".join(path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__))
    return {name for name in names if f'"{name}"' not in tests}


@pytest.mark.parametrize(
    ("module", "said", "words"),
    [
        (advice, {**ADVICE, **OWNERS}, "ADVICE of present/screens/advice.py"),
        (causes, CAUSES, "CAUSES of present/screens/verdict.py"),
    ],
    ids=["advice", "causes"],
)
def test_what_is_concluded_has_words(module: object, said: Iterable[str], words: str) -> None:
    assert not ids_in(module) - set(said), f"these have no words among {words}"
    assert not set(said) - ids_in(module), f"nothing concludes these any more: {words}"


def test_each_part_of_rss_has_words() -> None:
    assert (*LABELS,) == PARTS


def test_each_advice_has_a_test() -> None:
    assert not untested({**ADVICE, **OWNERS}), "tests/debuggers/test_advice.py takes each advice and measures"


def test_each_cause_has_a_test() -> None:
    assert not untested(CAUSES), "STORIES of tests/debuggers/test_mysteries.py: where it is said, and where not"


def test_each_allocator_has_a_test() -> None:
    names = {kind.name for kind in KINDS}
    assert untested(names) == NOT_TO_BE_HAD, "tests/debuggers/test_other_allocators.py or test_other_heaps.py"
