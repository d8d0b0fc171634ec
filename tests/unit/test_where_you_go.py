"""CONTRIBUTING's "Where you go": of a change that takes several places, the one that was forgotten is named."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Iterable

import pytest

from arenascope.analysis import advice, causes
from arenascope.analysis.report import PARTS
from arenascope.glibc.find.which_allocator import KINDS
from arenascope.present.screens.advice_sentences import ADVICE
from arenascope.present.screens.owner_advice_sentences import OWNERS
from arenascope.present.screens.part_names import LABELS
from arenascope.present.screens.verdict import CAUSES

TESTS = Path(__file__).resolve().parents[1]
NOT_SAID = {"live-grew", "grew-too-little"}
"""What another module says, and this one asks."""
NOT_TO_BE_HAD = {"MemorySanitizer", "LeakSanitizer", "Scudo", "snmalloc", "rpmalloc", "tbbmalloc"}
"""Known by what their sources say: Debian has no program or library that these tests could run with them."""


def ids_in(module: object) -> set[str]:
    text = Path(str(getattr(module, "__file__", ""))).read_text()
    return set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text)) - NOT_SAID


def asked_for(tree: ast.Module) -> set[str]:
    """What a test compares with, or takes from a table: not what it only calls with or tells of."""
    tables = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    marks = [each for node in tree.body if isinstance(node, ast.FunctionDef) for each in node.decorator_list]
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    constants = [each for node in (*tables, *marks, *compared) for each in ast.walk(node)]
    return {each.value for each in constants if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def test_what_is_only_named_is_not_asked_for() -> None:
    asked = ast.parse('"""one"""\nX = ["a"]\n@mark("b")\ndef f():\n    assert "c" in g("two"), "three"\n    h("four")')
    assert asked_for(asked) == {"a", "b", "c", "two"}


def untested(names: Iterable[str]) -> set[str]:
    """Which of these no test but those here asks for."""
    return set(names) - asked_for_by_any()


@functools.cache
def asked_for_by_any() -> set[str]:
    tests = [ast.parse(path.read_text()) for path in TESTS.rglob("*.py") if path != Path(__file__)]
    return {name for tree in tests for name in asked_for(tree)}


@pytest.mark.parametrize(
    ("module", "said", "words"),
    [
        (advice, {**ADVICE, **OWNERS}, "ADVICE of present/screens/advice_sentences.py"),
        (causes, CAUSES, "CAUSES of present/screens/verdict.py"),
    ],
    ids=["advice", "causes"],
)
def test_what_is_concluded_has_words(module: object, said: Iterable[str], words: str) -> None:
    assert not ids_in(module) - set(said), f"these have no words among {words}"
    assert not set(said) - ids_in(module), f"nothing concludes these any more: {words}"


def test_each_part_of_rss_has_words() -> None:
    assert (*LABELS,) == PARTS


@pytest.mark.xdist_group("where you go")
def test_each_advice_has_a_test() -> None:
    assert not untested({**ADVICE, **OWNERS}), "tests/debuggers/test_advice.py takes each advice and measures"


@pytest.mark.xdist_group("where you go")
def test_each_cause_has_a_test() -> None:
    assert not untested(CAUSES), "STORIES of tests/debuggers/test_mysteries.py: where it is said, and where not"


@pytest.mark.xdist_group("where you go")
def test_each_allocator_has_a_test() -> None:
    names = {kind.name for kind in KINDS}
    assert untested(names) == NOT_TO_BE_HAD, "tests/debuggers/test_other_allocators.py or test_other_heaps.py"
