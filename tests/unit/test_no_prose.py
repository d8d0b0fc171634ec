"""No test asks for a sentence: a writer may reword it. Tests ask for ids, keys, exit statuses, names and figures."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator

import pytest

TESTS = Path(__file__).resolve().parents[1]
SENTENCE = re.compile(r"(?<![\w/.-])[a-z']{2,}[,;:]? [a-z']+[,;:]? [a-z']{2,}(?![\w/.=-])", re.IGNORECASE)
"""Three words in a row."""
TYPED = re.compile(r"\b(?:arenascope|heap) [a-z]+|[\d,]+ blocks of [\w:]+")
"""A command, and a figure with the name of a type, are none."""
ASKS = {"any", "all", "bool", "len", "sorted", "list", "set"}
"""What is given to any other function of a test's is no answer that it compares."""
OTHERS = {
    "names that the program gives": {
        "glibc's thread cache",
        "libstdc++'s emergency pool |",
    },
    "what Python and glibc say": {
        "Traceback (most recent call last)",
        "Arena 0:\nsystem bytes     = 1073741824\n",
        "Arena 0:\nsystem bytes     =     135168\n",
    },
    "words that no screen may have": {"scraps|sub-page|is cached first|"},
    "what these tests say of a failure": {"1 of 3 looks, first bins-live-lldb-19-symbols: of the top"},
}
"""Beginnings of what may stand in an assertion nevertheless; by the reason."""


def parts(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    calls_ours = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in ASKS
    for each in () if calls_ours else ast.iter_child_nodes(node):
        yield from parts(each)


def asked(tree: ast.AST) -> Iterator[ast.AST]:
    """What assertions compare, without what they say of a failure, and what an error is matched with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield from parts(node.test)
        elif isinstance(node, ast.keyword) and node.arg == "match":
            yield node
            yield from parts(node.value)


def looked_for(node: ast.AST) -> set[str]:
    """Names of what is to be in an answer."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
        return {node.left.id} if isinstance(node.left, ast.Name) else set()
    within = ast.walk(node) if isinstance(node, ast.keyword) else ()
    return {each.id for each in within if isinstance(each, ast.Name)}


def sentences(tree: ast.AST) -> Iterator[str]:
    """In assertions, and in a table of parameters where the test looks for one of these in an answer."""
    found = [*asked(tree)]
    for test in ast.walk(tree):
        if isinstance(test, ast.FunctionDef) and test.decorator_list:
            names = {name for each in asked(test) for name in looked_for(each)}
            if names & {each.arg for each in test.args.args}:
                marks = [each for each in test.decorator_list if isinstance(each, ast.Call)]
                found += [each for mark in marks for table in mark.args for each in ast.walk(table)]
    for each in found:
        said = each.value if isinstance(each, ast.Constant) else None
        if isinstance(said, str) and SENTENCE.search(TYPED.sub("", said)):
            yield said


@pytest.mark.parametrize(
    "text",
    [
        'assert "no such thing is here" in out',
        'assert out == f"{x} blocks of {y} keep all of it"',
        'assert re.search("which are not there", out)',
        'with pytest.raises(TypeError, match="is not a core"): pass',
        '@mark("said", ["there is no such"])\ndef test(said):\n    assert said in out',
    ],
)
def test_a_sentence_is_seen(text: str) -> None:
    assert len([*sentences(ast.parse(text))]) == 1


def test_what_is_none_is_not_seen() -> None:
    assert not [*sentences(ast.parse('assert check("as it was") == "x-y-z", "it is not so"\n"are these all words"'))]


def test_no_test_asks_for_a_sentence() -> None:
    """And what no test asks for any more leaves the list."""
    listed = {each for group in OTHERS.values() for each in group}
    found = {f"{path.name}: {each}" for path in TESTS.rglob("*.py") for each in sentences(ast.parse(path.read_text()))}
    allowed = {each: begin for each in found for begin in listed if each.partition(": ")[2].startswith(begin)}
    assert found - {*allowed} == set()
    assert {*allowed.values()} == listed
