"""What an assistant is offered, and what becomes of what it says: without the SDK, and with nobody to look at."""

from __future__ import annotations

import re
from typing import Any

import pytest

from arenascope.base.errors import TargetError
from arenascope.cli import mcp
from arenascope.cli.mcp import APPLY, Allowed, NamedSubject, Tool, tools_for

NOT_OFFERED = re.compile("FILE|FOLDER|DIR|FORMAT|PID|CORE")


def tools(apply: bool = False, values: bool = False, subject: str = "a.core") -> dict[str, Tool]:
    allowed = Allowed(apply, values)
    return {each.name: each for each in tools_for([NamedSubject(subject, allowed)], allowed)}


def schema(tool: Tool) -> dict[str, Any]:
    return tool.input_schema["properties"]


def test_apply_is_a_tool_of_its_own_for_processes() -> None:
    allowed = Allowed(apply=True)
    named = [NamedSubject("a.core", allowed), NamedSubject("another.core", allowed)]
    assert all(not each.applies for each in tools_for(named, allowed))
    (applying,) = (each for each in tools(True, subject="1").values() if each.applies)
    assert (applying.name, list(applying.named)) == ("trim_apply", ["1"])
    assert not any(each.applies for each in tools(False, subject="1").values())


def test_no_option_names_a_file_or_says_what_a_user_says() -> None:
    for tool in tools(True, True, "1").values():
        for each in tool.arguments.values():
            assert not NOT_OFFERED.search(each.value) or not each.takes_value, each
        assert not {"apply", "yes", "even_under_seccomp", "with_values", "html", "libc"} & set(tool.arguments), (
            tool.name
        )
        assert set(schema(tool)) == {"subject", *tool.arguments}
        assert tool.input_schema["additionalProperties"] is False
    assert set(schema(tools()["report"])) == {"subject", "full", "types", "owners", "quick", "again"}
    assert "words" not in schema(tools()["chunk"])
    assert "words" in schema(tools(values=True)["chunk"])


def test_what_is_said_is_a_value_and_no_option() -> None:
    types = tools()["types"]
    said = types._options(
        {"subject": "a.core", "name": "--rules=x", "match": "--with-values", "limit": 3, "quick": True}
    )
    assert (said.name, said.match, said.limit, said.quick) == ("--rules=x", "--with-values", 3, True)
    assert (said.rules, said.with_values, said.json) == (None, False, True)
    chunk = tools(values=True)["chunk"]._options({"subject": "a.core", "address": ["0x10", "0x20"], "words": 2})
    assert (chunk.address, chunk.words, chunk.with_values) == (["0x10", "0x20"], 2, True)


@pytest.mark.parametrize("applies", [False, True])
def test_only_the_tool_that_applies_does(applies: bool) -> None:
    tool = tools(True, subject="1")["trim_apply" if applies else "trim"]
    said = tool._options({"subject": "1", "tops": True})
    assert (said.apply, said.yes, said.even_under_seccomp, said.tops) == (applies, applies, False, True)
    assert any(APPLY in each.names for each in tool.command.arguments)


def test_what_got_the_pid_of_a_process_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    named = NamedSubject("1", Allowed())
    named.check()
    started = mcp.born(1)
    monkeypatch.setattr(mcp, "born", lambda pid: started + 1)
    with pytest.raises(TargetError):
        named.check()
