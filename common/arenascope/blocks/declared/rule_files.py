"""Which file of rules belongs to a program: the one that is named, else the first of its name.

PROGRAM.rules is looked for in the folder arenascope/rules of the user's configuration, and among what comes with
arenascope; nowhere beside a core, which may come out of somebody else's archive. A file that somebody else can write to
is never read: a rule makes up what blocks are called.
"""

from __future__ import annotations

import os
import pkgutil
from contextlib import suppress
from typing import NamedTuple, Optional

from ...base.errors import UsageError
from ...base.programs import is_ours
from ...session.session import Session
from ...sources.elf.address_names import programs_of
from ...sources.elf.sysroot import open_regular

NONE = "none"
"""In place of a file: no rules at all."""
LARGEST = 1 << 20
ALIKE = {"redis-sentinel": "redis-server", "redis-check-rdb": "redis-server", "valkey-sentinel": "valkey-server"}
"""One program under several names."""


class RuleText(NamedTuple):
    path: str
    text: str
    named: bool = False
    """Somebody asked for this file."""
    shipped: bool = False
    """It came with arenascope: it may be for another release of the program."""


def named_rules(path: str) -> RuleText:
    """UsageError where it cannot be read, or is not to be trusted."""
    try:
        with open(open_regular(path), "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    if not is_ours(path):
        raise UsageError(f"{path} is not read: another user can write to it, or to a folder that leads there")
    if len(data) > LARGEST:
        raise UsageError(f"{path} is too large to be a file of rules")
    return RuleText(path, data.decode("utf-8", "replace"), named=True)


def rules_of(session: Session) -> Optional[RuleText]:
    """None where there are none for this program."""
    file = session.rules.file
    if file:
        return named_rules(file) if file != NONE else None
    program = program_name(session)
    if not program:
        return None
    path = os.path.join(_users_folder(), f"{program}.rules")
    if os.path.isabs(path) and os.path.isfile(path) and is_ours(path):
        with suppress(UsageError):
            return named_rules(path)._replace(named=False)
    return _shipped(ALIKE.get(program, program))


def program_name(session: Session) -> str:
    """ "": not known."""
    for run in programs_of(session.target.regions()):
        name = os.path.basename(run[0].path)
        return name.removesuffix(" (deleted)")
    return ""


def _users_folder() -> str:
    """No absolute path where nobody's home is known."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.config"), "arenascope", "rules")


def _shipped(program: str) -> Optional[RuleText]:
    with suppress(OSError):
        data = pkgutil.get_data(__package__, f"programs/{program}.rules")
        if data is not None:
            return RuleText(f"arenascope's own {program}.rules", data.decode(), shipped=True)
    return None
