"""Each file in commands/ is a command, and all that a door needs of it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from arenascope import commands
from arenascope.command import GROUPS, Command, all_commands, command_names, find_command


@pytest.mark.parametrize("name", command_names())
def test_each_file_holds_the_command_of_its_name(name: str) -> None:
    found = find_command(name)
    assert isinstance(found, Command)
    assert found.name == name
    assert found.group in GROUPS
    assert found.summary.endswith(".")
    assert found.example.split()[0] == name


def test_each_group_has_a_command() -> None:
    assert {command.group for command in all_commands()} == {*GROUPS}


def test_a_file_that_registers_nothing_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would fail for it, as every door does."""
    (tmp_path / "idle.py").write_text("def something() -> None: ...\n")
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    with pytest.raises(AttributeError, match="idle_command"):
        find_command("idle")
    monkeypatch.setattr(commands, "__path__", [str(tmp_path)])
    assert command_names() == ["idle"]
