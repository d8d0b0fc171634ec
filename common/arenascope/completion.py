"""Shell completion, made from the table of commands: eval "$(arenascope --completion bash)"."""

from __future__ import annotations

from typing import Sequence

from .command import Command
from .errors import UsageError

SHELL_WIDE = ("--stop", "--no-stop", "--no-symbols", "--debug-dir")

BASH = """_arenascope() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words=''
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W '{commands}' -- "$word"))
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    else
        # a core file, or the pid of a process of one's own
        COMPREPLY=($(compgen -f -- "$word") $(compgen -W "$(ps -u "$UID" -o pid= 2>/dev/null)" -- "$word"))
    fi
}}
complete -o filenames -F _arenascope arenascope
"""

ZSH = """#compdef arenascope
_arenascope() {{
    local -a commands
    commands=(
{described}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    case $words[2] in
{cases}
    esac
    _alternative 'files:core:_files' 'processes:process:_pids'
}}
compdef _arenascope arenascope
"""


def script(shell: str, commands: Sequence[Command]) -> str:
    """What the shell evaluates."""
    if shell == "bash":
        cases = [f"        {each.name}) words='{' '.join(options(each))}' ;;" for each in commands]
        return BASH.format(cases="\n".join(cases), commands=" ".join(each.name for each in commands))
    if shell == "zsh":
        described = [f"        '{each.name}:{_quoted(each.summary)}'" for each in commands]
        cases = [f"        {each.name}) compadd -- {' '.join(options(each))} ;;" for each in commands]
        return ZSH.format(described="\n".join(described), cases="\n".join(cases))
    if shell == "fish":
        lines = [
            f"complete -c arenascope -n __fish_use_subcommand -a {each.name} -d '{_quoted(each.summary)}'"
            for each in commands
        ]
        lines += [
            f"complete -c arenascope -n '__fish_seen_subcommand_from {each.name}' -l {name[2:]}"
            for each in commands
            for name in options(each)
        ]
        return "\n".join(lines) + "\n"
    raise UsageError(f"no completion for {shell!r}", "bash, zsh or fish")


def options(command: Command) -> list[str]:
    return sorted({*command.option_names(), *SHELL_WIDE})


def _quoted(text: str) -> str:
    return text.replace("'", "").replace(":", ",")
