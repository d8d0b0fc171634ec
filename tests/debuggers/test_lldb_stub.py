"""stubs/lldb, by which mypy checks lldb/, is what each LLDB's own module says of itself."""

from __future__ import annotations

import ast
import re
from typing import Iterator, NamedTuple, Optional

import pytest
from lldb_door import EVERY_LLDB, NEWEST_LLDB, Lldb
from looks import ROOT, opened
from marks import in_full

pytestmark = pytest.mark.xdist_group("lldb")
STUB = (ROOT / "stubs" / "lldb" / "__init__.pyi").read_text()

ITERATED = ("SBProcess", "SBSymbolContextList", "SBTypeList", "SBValueList")

ASK = """
from functools import reduce
def look(name):
    try:
        found = reduce(getattr, name.split("."), lldb)
    except AttributeError:
        return None
    return getattr(found, "__doc__", "") or ""
value = dict(zip({names!r}, map(look, {names!r})))
"""


class Told(NamedTuple):
    """What the stub says of one name."""

    name: str
    since: int
    arguments: Optional[int] = None
    """None: it is no function."""
    returns: str = ""


def stub() -> Iterator[Told]:
    lines = STUB.splitlines()

    def since(node: ast.stmt) -> int:
        found = re.search(r"# LLDB (\d+)$", lines[node.lineno - 1])
        return int(found[1]) if found else 0

    for node in ast.parse(STUB).body:
        if isinstance(node, ast.AnnAssign):
            yield Told(ast.unparse(node.target), since(node))
        if isinstance(node, ast.ClassDef):
            yield Told(node.name, 0)
            for each in node.body:
                assert isinstance(each, ast.FunctionDef)
                is_field = "property" in map(ast.unparse, each.decorator_list)
                arguments = None if is_field else len(each.args.args) - 1
                yield Told(f"{node.name}.{each.name}", since(each), arguments, ast.unparse(each.returns))


def takes(signature: re.Match[str], told: Told) -> bool:
    """Whether SWIG's line for a function fits: "GetName(SBThread self) -> char const *"."""
    given = [word for word in signature["given"].split(", ")[1:] if word]
    least = sum("=" not in word for word in given)
    if not least <= told.arguments <= len(given):
        return False
    if any(word.startswith(("void *", "char *")) for word in given):
        return True  # a buffer, which Python gets returned
    kind = (signature["returns"] or "None").removesuffix(" *")
    known = {"char const": "str", "std::string": "str", "bool": "bool", "None": "None"}
    return told.returns.removesuffix(" | None") == (kind if kind.startswith("SB") else known.get(kind, "int"))


def test_the_stub_is_read() -> None:
    names = {told.name: told for told in stub()}
    assert names["SBThread.GetFrameAtIndex"] == ("SBThread.GetFrameAtIndex", 0, 1, "SBFrame")
    assert names["SBProcess.GetCoreFile"].since == 17
    assert {"eStateStopped", "SBFileSpec.fullpath", "SBProcess.__iter__"} <= set(names)


def test_not_a_name_more() -> None:
    """What lldb/ does not use is not in it."""
    used = "\n".join(path.read_text() for path in sorted((ROOT / "lldb").glob("*.py")))
    surplus = [told.name for told in stub() if "." in told.name and f".{told.name.partition('.')[2]}" not in used]
    assert surplus == [f"{name}.__iter__" for name in ITERATED]


@pytest.mark.parametrize("door", [NEWEST_LLDB, *in_full(*EVERY_LLDB[:-1])], ids=lambda door: door.name)
def test_each_name_is_there_and_fits(door: Lldb) -> None:
    wanted = [told for told in stub() if told.since <= door.version]
    (answer,) = opened(door).drive([], [{"python": ASK.format(names=[told.name for told in wanted])}])
    assert [name for name, doc in answer.value.items() if doc is None] == []
    unfit, compared = [], 0
    for told in wanted:
        own, _, method = told.name.partition(".")
        form = rf"\b{method}\({own} self(?P<given>[^)]*)\)(?: -> (?P<returns>[^\n]*))?$"
        signatures = [] if told.arguments is None else list(re.finditer(form, answer.value[told.name], re.MULTILINE))
        compared += bool(signatures)
        if signatures and not any(takes(each, told) for each in signatures):
            unfit.append((told, [each[0] for each in signatures]))
    assert unfit == []
    assert compared > 30
