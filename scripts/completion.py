"""Makes the shells' completion scripts from the tree of the command line, by shtab.

reference.py writes them when a package is built; `bin/arenascope --completion SHELL` prints one in a checkout.
"""

from __future__ import annotations

import argparse
import re

import shtab

from arenascope.cli.main import COMMAND, CORE_OPTION, PID_OPTION, CommandTree, branch_names
from arenascope.commands.framework.overview import ALL
from arenascope.present.glossary import TOPIC

SHELLS = ("bash", "zsh", "fish")
PROCESSES = {"bash": "_arenascope_pids", "zsh": "_arenascope_pids", "fish": "(__fish_complete_pids)"}
SUBJECTS = {
    "bash": "_arenascope_pid_or_file",
    "zsh": "_arenascope_pid_or_file",
    "fish": "(__fish_complete_pids) (__fish_complete_path (commandline -ct))",
}
"""What completes a process or a core file."""
BEFORE = {
    # _file in its name tells shtab that file names must be quoted
    "bash": """_arenascope_pids() { compgen -W "$(ps -u "$UID" -o pid= 2>/dev/null)" -- "$1"; }
_arenascope_pid_or_file() {
    _arenascope_pids "$1"
    compgen -f -- "$1"
}""",
    # zsh's own _pids knows the processes of this terminal alone
    "zsh": """_arenascope_pids() {
    local -a found
    found=(${${(f)"$(ps -u $UID -o pid=,comm= 2>/dev/null)"}##[[:blank:]]#})
    found=(${found/ /:})
    _describe process found
}
_arenascope_pid_or_file() { _alternative 'pids:pid:_arenascope_pids' 'files:file:_files' }""",
}
# bash takes --sort=free as three words, and shtab does not
BASH_AFTER = """
_arenascope() {
    local word words=()
    for word in "${COMP_WORDS[@]:0:COMP_CWORD}"; do [[ $word == '=' ]] || words+=("$word"); done
    words+=("${COMP_WORDS[COMP_CWORD]#=}")
    COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
    _shtab_arenascope
    # without a command it is the report of a process or core
    if [[ $COMP_CWORD == 1 && ${#COMPREPLY[@]} == 0 ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(_arenascope_pid_or_file "${COMP_WORDS[1]}")
    fi
}
complete -o bashdefault -F _arenascope arenascope
"""


def known_shells() -> list[str]:
    """Those that this release of shtab can make: fish came with 1.8."""
    return [each for each in SHELLS if each in shtab.SUPPORTED_SHELLS]


def completion(shell: str) -> str:
    text: str = shtab.complete(prepared(), shell, preamble=BEFORE)
    if shell == "bash":
        return text + BASH_AFTER
    if shell == "zsh":
        # --sort=free, too; and by `source` as by `eval`
        text = re.sub(r'^(  "\*?--[\w-]+)(\[.*\]:)', r"\1=\2", text, flags=re.MULTILINE)
        return text.replace("[-1] == eval ", "[-1] != loadautofunc ")
    return text


def prepared() -> CommandTree:
    """Each argument has what completes its value."""
    tree = CommandTree(branch_names())
    (commands,) = (each for each in tree._actions if isinstance(each, argparse._SubParsersAction))
    # shtab leaves out what has no help here
    commands._choices_actions = [
        commands._ChoicesPseudoAction(name, (), parser.outline.summary) for name, parser in tree.branches.items()
    ]
    # they may stand before the command
    for option in (PID_OPTION, CORE_OPTION):
        tree.add(option)
        _complete(tree._actions[-1], tree)
    for parser in tree.branches.values():
        parser._add_places()
        for each in parser._actions:
            _complete(each, tree)
    return tree


def _complete(action: argparse.Action, tree: CommandTree) -> None:
    words = set(re.findall("[A-Z]+", str(action.metavar or "")))
    # a process or a core may stand before a command's own words, or after them
    if words == {"PID"}:
        action.complete = PROCESSES  # type: ignore[attr-defined]
    elif "PID" in words or (not action.option_strings and COMMAND not in words):
        action.complete = SUBJECTS  # type: ignore[attr-defined]
    elif words & {"CORE", "FILE"}:
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif "DIR" in words:
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    elif COMMAND in words:
        action.choices = [*tree.branches, ALL, TOPIC] if action.nargs == "*" else list(tree.branches)
