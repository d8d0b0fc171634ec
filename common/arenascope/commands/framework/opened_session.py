"""The session of a command, as its options want it."""

from __future__ import annotations

from argparse import Namespace

from ...present.shared_text.progress_bar import ProgressOfAll
from ...session.session import Session
from ...session.users_rules import UsersRules
from ...sources.target import Target


def opened_session(target: Target, options: Namespace, processes: int) -> Session:
    session = Session(target, options.libc, ProgressOfAll(), processes)
    session.rules = UsersRules(getattr(options, "rules", None) or "")
    return session
