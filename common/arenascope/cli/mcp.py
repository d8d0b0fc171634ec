"""arenascope mcp PID|CORE...: commands for an assistant, over MCP on standard input and output, by the official SDK.

It answers only about the subjects named here. mcp_tools.py decides which commands and options it offers.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

from ..base.about import INTERRUPTED, STOPPED
from ..base.argv import pid_in
from ..base.errors import ArenascopeError, TargetError
from ..commands.framework.arguments import HELP, ArgumentGroup, Outline, argument
from .mcp_server import serve
from .mcp_tools import Allowed, NamedSubject, tools_for
from .shell import HOLD_AT_MOST_OPTION
from .subjects import CORE_OPTION, PID_OPTION, SUBJECTS

OUTLINE = Outline(
    "Commands as tools for an assistant (MCP), about the processes and cores that are named here.",
    "A client starts it and speaks to it over standard input and output; it ends when its input does. Each command "
    "that needs no file is a tool, and its answer is the --json document. An assistant can look at what is named, and "
    "at nothing else. It changes nothing, unless --allow-apply is given, and sees nothing of what blocks hold, unless "
    "--with-values is. It needs MCP's SDK: pip install 'arenascope[mcp]'.",
    "mcp redis-server\nmcp core.1234 -p 5678 --hold-at-most 500ms",
    (
        ArgumentGroup(
            "options",
            (
                SUBJECTS,
                PID_OPTION,
                CORE_OPTION,
                HOLD_AT_MOST_OPTION,
                argument(
                    "--allow-apply",
                    action="store_true",
                    help="also a tool for `trim --apply`, which changes the process and asks nobody first",
                ),
                argument(
                    "--with-values",
                    action="store_true",
                    help="also the program's own data: keys of containers, values, words of blocks",
                ),
                HELP,
            ),
        ),
    ),
)


def run(options: argparse.Namespace) -> int:
    try:
        import_module("mcp_types")
        import_module("mcp.server.stdio")
    except ImportError:
        raise ArenascopeError(
            "the SDK for MCP is not installed (it needs Python 3.10)", "pip install 'arenascope[mcp]'"
        ) from None
    allowed = Allowed(options.allow_apply, options.with_values, options.hold_at_most)
    named = [NamedSubject(each, allowed) for each in dict.fromkeys(options.subjects)]
    for each in options.subjects:
        if pid_in(each) is None and not os.path.isfile(each):
            raise TargetError(f"there is no file {each}")
    if sys.stdin.isatty():
        sys.stderr.write("arenascope mcp: waiting for a client's messages on standard input; Ctrl-C ends it\n")
    # the SDK waits for input in a thread, which Ctrl-C does not wake
    signal.signal(signal.SIGINT, _stop)
    serve(tools_for(named, allowed))
    return 0


def _stop(*_: object) -> NoReturn:
    """Exits at Ctrl-C. Exiting releases a held process."""
    sys.stderr.write(STOPPED)
    sys.stderr.flush()
    os._exit(INTERRUPTED)
