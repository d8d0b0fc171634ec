"""Each file in commands/ is a command, and all that a door needs of it is there."""

from __future__ import annotations

import pytest

from arenascope.commands.framework.command import GROUPS, Command
from arenascope.commands.framework.find_command import COMMAND_NAMES, all_commands, find_command


@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_each_file_holds_the_command_of_its_name(name: str) -> None:
    found = find_command(name)
    assert isinstance(found, Command)
    assert found.name == name
    assert found.group in GROUPS
    assert found.summary.endswith(".")
    assert found.example.split()[0] == name


def test_each_group_has_a_command() -> None:
    assert {command.group for command in all_commands()} == {*GROUPS}
