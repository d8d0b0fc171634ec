"""Each error has an id, which docs/scripts.md tells, and which goes with it wherever it goes."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path
from typing import Iterator

from schemas import contract

from arenascope.base import errors
from arenascope.base.internal_error import fault_id

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for folder in ("common", "gdb", "lldb") for path in sorted((ROOT / folder).rglob("*.py"))]
OTHERS = {"debugger", "system", fault_id(MemoryError()), fault_id(IndexError())}
"""Errors that are not arenascope's."""


def refusals() -> Iterator[ast.expr]:
    """The first argument of each that is made."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "RefusedError":
                yield node.args[0]


def kinds() -> Iterator[type[errors.ArenascopeError]]:
    for each in vars(errors).values():
        if isinstance(each, type) and issubclass(each, errors.ArenascopeError) and each is not errors.RefusedError:
            yield each


def test_the_page_has_every_id() -> None:
    made = {each.value for each in refusals() if isinstance(each, ast.Constant)}
    assert len(made) > 30
    assert all(isinstance(each, ast.Constant) for each in refusals())
    section = (ROOT / "docs" / "scripts.md").read_text().partition("## Errors\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    told = [each for cell in cells for each in re.findall(r"`([a-z-]+)`", cell)]
    assert len(told) == len(set(told))
    known = made | {each.id for each in kinds()} | OTHERS
    assert {*told, "debugger", "system"} == known
    assert {each for each in contract() if each.startswith("errors ")} <= {f"errors {each}" for each in known}


def test_kinds_that_are_caught_apart_have_ids_of_their_own() -> None:
    # of this its own look alone wants to know more
    ids = [each.id for each in kinds() if each is not errors.HoldTooShort]
    assert len(ids) == len(set(ids))


def test_a_refusal_crosses_to_another_process() -> None:
    """As between a fleet's workers: with its id, its words and its hint."""
    refused = errors.RefusedError("inside-malloc", "thread 7 is inside", "wait")
    again = pickle.loads(pickle.dumps(refused))
    assert (again.id, str(again), again.hint) == ("inside-malloc", str(refused), "wait")
