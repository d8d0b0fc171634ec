"""Completion for bash, zsh and fish, made from the tree of the command line: eval "$(arenascope --completion bash)"."""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from ..base.records import NamedTuple
from ..commands.framework.arguments import Argument, options_of, places_of
from .tree import COMMAND, INSTEAD, SUBCOMMAND, Tree

KINDS = {"PID": "@PID", "CORE": "@FILE", "FILE": "@FILE", "DIR": "@DIR", COMMAND: "@COMMAND"}
"""What a value is, by the words that stand for it in a help. The marks stand for what the shell itself finds."""

BASH = """_arenascope() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command='' options='' plain='' offered=''
    # --sort=free is three words here
    [[ $before == '=' ]] && before=${{COMP_WORDS[COMP_CWORD-2]}}
    [[ $word == '=' ]] && before=${{COMP_WORDS[COMP_CWORD-1]}} word=''
    [[ $COMP_CWORD -gt 1 && ${{COMP_WORDS[1]}} != -* ]] && command=${{COMP_WORDS[1]}}
    case $command in
{branches}
    esac
    case "$command $before" in
{values}
        *) [[ $word == -* ]] && offered=$options || offered=$plain ;;
    esac
    case " $offered " in
        *' @PID '*) offered+=" $(ps -u "$UID" -o pid= 2>/dev/null)" ;;
        *' @COMMAND '*) offered+=' {commands}' ;;
    esac
    COMPREPLY=($(compgen -W "$offered" -X '@*' -- "$word"))
    case " $offered " in
        *' @FILE '*) mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$word") ;;
        *' @DIR '*) mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -d -- "$word") ;;
        *) return ;;
    esac
    compopt -o filenames 2>/dev/null
}}
complete -F _arenascope arenascope
"""

ZSH = """#compdef arenascope
_arenascope() {{
    local curcontext=$curcontext state line
    local -a commands
    commands=(
{described}
    )
    _arguments -C \\
{instead}
        '1:command:->command' '*::word:->word' && return
    if [[ $state == command ]]; then
        _describe -t commands command commands
        return
    fi
    case $words[1] in
{branches}
    esac
}}
if [[ $funcstack[1] == _arenascope ]]; then
    _arenascope "$@"
else
    compdef _arenascope arenascope
fi
"""
ZSH_KINDS = {"@PID": "_pids", "@FILE": "_files", "@DIR": "_files -/", "@COMMAND": " _describe command commands"}

FISH = """function __arenascope_in
    set -l words (commandline -opc)
    string match -q -- '-*' "$words[2]"; and set words[2] ''
    contains -- "$words[2]" $argv
end
complete -c arenascope -f
"""
FISH_KINDS = {"@PID": "(__fish_complete_pids)", "@DIR": "(__fish_complete_directories)"}


class Branch(NamedTuple):
    """A command, or what stands instead of one: that has no name."""

    name: str
    summary: str
    options: Sequence[Argument]
    places: Sequence[Argument]


def branches(tree: Tree) -> list[Branch]:
    all_branches = [Branch("", "", list(options_of([INSTEAD])), [SUBCOMMAND])]
    for name, parser in tree.branches.items():
        groups = parser.outline.all_groups
        all_branches.append(Branch(name, parser.outline.summary, list(options_of(groups)), list(places_of(groups))))
    return all_branches


def offers(*arguments: Argument) -> list[str]:
    """What their values may be: words, and marks for what the shell finds."""
    marks = (KINDS[word] for each in arguments for word in re.findall("[A-Z]+", each.value) if word in KINDS)
    return list(dict.fromkeys([*(choice for each in arguments for choice in each.choices), *marks]))


def script(shell: str, tree: Tree) -> str:
    """What the shell evaluates."""
    all_branches = branches(tree)
    if shell == "fish":
        return _fish(all_branches)
    return _bash(all_branches) if shell == "bash" else _zsh(all_branches)


def _names(all_branches: Sequence[Branch]) -> str:
    return " ".join(each.name for each in all_branches if each.name)


def _bash(all_branches: Sequence[Branch]) -> str:
    takes, values = [], []
    for each in all_branches:
        options = " ".join(sorted(name for option in each.options for name in option.long_names))
        takes.append(f"        '{each.name}') options='{options}' plain='{' '.join(offers(*each.places))}' ;;")
        for option in each.options:
            if option.takes_value:
                spelt = " | ".join(f"'{each.name} {name}'" for name in option.names)
                values.append(f"        {spelt}) offered='{' '.join(offers(option))}' ;;")
    return BASH.format(branches="\n".join(takes), values="\n".join(values), commands=_names(all_branches))


def _zsh(all_branches: Sequence[Branch]) -> str:
    root, *rest = all_branches
    described = [f"        {_quoted(f'{each.name}:{each.summary}')}" for each in rest]
    instead = [f"        {word} \\" for word in _zsh_options(root.options)]
    takes = []
    for each in rest:
        words = [*_zsh_options(each.options), *_zsh_places(each.places)]
        takes.append(" \\\n            ".join([f"        {each.name}) _arguments", *words]) + " ;;")
    return ZSH.format(described="\n".join(described), instead="\n".join(instead), branches="\n".join(takes))


def _zsh_options(options: Sequence[Argument]) -> Iterator[str]:
    for option in options:
        again = "*" if option.options.get("action") == "append" else f"({' '.join(option.names)})"
        meaning = re.sub(r"([\[\]\\])", r"\\\1", option.help)
        value = f":{option.names[-1].lstrip('-')}:{_zsh_action(offers(option))}" if option.takes_value else ""
        for name in option.names:
            sign = "=" if value and name in option.long_names else ""
            yield _quoted(f"{again}{name}{sign}[{meaning}]{value}")


def _zsh_places(places: Sequence[Argument]) -> Iterator[str]:
    """They may stand in any order."""
    kinds = [f"{kind[1:].lower()}s:{kind[1:].lower()}:{ZSH_KINDS[kind]}" for kind in offers(*places)]
    if kinds:
        yield _quoted(f"*:word:{{_alternative {' '.join(map(_quoted, kinds))}}}")


def _zsh_action(kinds: Sequence[str]) -> str:
    marks = [ZSH_KINDS[kind] for kind in kinds if kind in ZSH_KINDS]
    return marks[0] if marks else f"({' '.join(kinds)})" if kinds else " "


def _fish(all_branches: Sequence[Branch]) -> str:
    told: dict[str, list[str]] = {}
    """What completes, and in which branches."""
    for each in all_branches:
        if each.name:
            told[f"-a {each.name} -d {_fish_quoted(each.summary)}"] = [""]
        for word in _fish_values(offers(*each.places), _names(all_branches)):
            told.setdefault(word, []).append(each.name)
        for option in each.options:
            names = [f"-l {name[2:]}" if name in option.long_names else f"-s {name[1:]}" for name in option.names]
            values = (_fish_values(offers(option), _names(all_branches)) or ["-x"]) if option.takes_value else []
            said = " ".join([*names, *values, "-d", _fish_quoted(option.help)])
            told.setdefault(said, []).append(each.name)
    lines = [f"complete -c arenascope -n {_fish_quoted(_fish_in(names))} {said}" for said, names in told.items()]
    return FISH + "\n".join(lines) + "\n"


def _fish_in(names: Sequence[str]) -> str:
    return " ".join(["__arenascope_in", *(name or '""' for name in names)])


def _fish_values(kinds: Sequence[str], commands: str) -> list[str]:
    """-F offers files, -x nothing but what is named."""
    words = [commands if kind == "@COMMAND" else FISH_KINDS.get(kind, kind) for kind in kinds if kind != "@FILE"]
    named = f"a {_fish_quoted(' '.join(words))}" if words else ""
    return [f"-rF{named}" if "@FILE" in kinds else f"-x{named}"] if kinds else []


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
