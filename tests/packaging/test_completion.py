"""Completion as bash, zsh and fish do it: each runs, lines are typed into it, and what it makes of them is read."""

from __future__ import annotations

import os
import select
import subprocess
import termios
import time
from functools import partial
from pathlib import Path

import pytest
from looks import needs
from terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
ZSH = """
autoload -Uz compinit && compinit -D -u
source {script}
tell() {{ print -r -- "<<$BUFFER>>" >>{answer}; }}
zle -N tell
bindkey '^T' tell
bindkey '^I' complete-word
PS1=''; BUFFER=''; tell
"""
BASH = """
source {script}
bind -x '"\\C-t": echo "<<$READLINE_LINE>>" >>{answer}'
PS1=''; echo '<<>>' >>{answer}
"""
LINES = {
    "tri": "trim",
    "wat": "watch",
    "--comp": "--completion",
    "--completion z": "--completion zsh",
    "help tri": "help trim",
    "trim --ra": "trim --ranges",
    "trim --no-sy": "trim --no-symbols",
    "metrics --li": "metrics --listen",
    "arenas --sort fr": "arenas --sort free",
    "arenas --stop si": "arenas --stop signal",
    "arenas --sort=fr": "arenas --sort=free",
    "arenas --limit a": "arenas --limit a",
    "arenas --bytes a.": "arenas --bytes a.core",
    "report --debug-dir ": "report --debug-dir symbols/",
    "metrics a.": "metrics a.",
    "mcp a.": "mcp a.core",
    "mcp --allow": "mcp --allow-apply",
    "chunk a.": "chunk a.core",
    "chunk 0x10 a.": "chunk 0x10 a.core",
    "report b": "report b\\ two.core",
    "metrics --output a.": "metrics --output a.core",
    "arenas --core a.": "arenas --core a.core",
    "-c a.": "-c a.core",
}
IN_BASH = {"a.": "a.core", "b": "bins"}
"""What stands for a command: the report is meant."""
IN_A_TERMINAL = {"watch 47": "watch 4711", "trim 47": "trim 4711"}
PS = """#!/bin/sh
[ "$1" = -u ] || exit 1
case "$4" in pid=) echo ' 4711';; *) echo ' 4711 a server';; esac
"""
"""Of all of a user's processes: without -u it would be those of one terminal."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "here" / "symbols").mkdir(parents=True)
    (tmp_path / "here" / "b two.core").write_text("")
    (tmp_path / "here" / "a.core").write_text("")
    return tmp_path / "here"


@pytest.mark.parametrize(
    "shell", ["bash", pytest.param("zsh", marks=pytest.mark.full), pytest.param("fish", marks=pytest.mark.full)]
)
def test_lines_are_completed(shell: str, folder: Path) -> None:
    """What stands there once the tabulator was pressed; and a process, by the first digits of its number."""
    needs(shell)
    said = folder.parent / "script"
    shown = subprocess.run([str(ROOT / "bin" / "arenascope"), "--completion", shell], capture_output=True, check=True)
    said.write_bytes(shown.stdout)
    expected = {**LINES, **(IN_BASH if shell == "bash" else {}), **({} if shell == "fish" else IN_A_TERMINAL)}
    mine = str(os.getpid())
    lines = [*expected, f"watch {mine[:-1]}"]
    type_them = in_fish if shell == "fish" else partial(in_a_terminal, shell)
    *found, process = type_them([f"arenascope {line}" for line in lines], said, folder)
    assert dict(zip(expected, (line.rstrip(" =") for line in found))) == {
        line: f"arenascope {whole}" for line, whole in expected.items()
    }
    if shell == "fish":
        # others may begin as it does
        assert f"arenascope watch {mine}".startswith(process.rstrip())


def in_fish(lines: list[str], said: Path, folder: Path) -> list[str]:
    asked = [f"complete -C '{line}'; echo '<end>'" for line in lines]
    done = subprocess.run(
        ["fish", "-N", "-c", "; ".join([f"source {said}", *asked])],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOME": str(folder.parent)},
    )
    assert not done.stderr
    found = []
    for line, answer in zip(lines, done.stdout.split("<end>\n")):
        before, _, word = line.rpartition(" ")
        # fish also offers what has the word in its middle, or in its description
        offered = [each.split("\t")[0].replace(" ", "\\ ") for each in answer.splitlines() if each.startswith(word)]
        found.append(f"{before} {os.path.commonprefix(offered) or word}")  # noqa: RUF071  they are words
    return found


def in_a_terminal(shell: str, lines: list[str], said: Path, folder: Path) -> list[str]:
    start, answer = folder.parent / "start", folder.parent / "answer"
    ps = folder.parent / "bin" / "ps"
    ps.parent.mkdir()
    ps.write_text(PS)
    ps.chmod(0o755)
    start.write_text({"bash": BASH, "zsh": ZSH}[shell].format(script=said, answer=answer))
    command = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    answer.write_text("")
    variables = {
        "PATH": f"{ps.parent}:{os.environ['PATH']}",
        "HOME": str(folder.parent),
        "INPUTRC": "/dev/null",
        "HISTFILE": "",
    }
    with Terminal(command, variables=variables, cwd=folder) as terminal:
        terminal.type(f"source {start}\n")
        for number, line in enumerate(["", *lines]):
            if number == 1:
                wait_for_editor(terminal.file)
            # ^U empties the line, ^T tells what stands there
            if number:
                terminal.type(f"\x15{line}\t\x14")
            wait_for(number + 1, answer, terminal.file)
    return [line[2:-2] for line in answer.read_text().splitlines()[1:]]


def wait_for_editor(terminal: int) -> None:
    """Until the shell reads key by key: the kernel itself obeys ^U in a line that is typed before."""
    limit = time.monotonic() + 60
    while termios.tcgetattr(terminal)[3] & termios.ICANON:
        assert time.monotonic() < limit
        time.sleep(0.01)


def wait_for(number: int, answer: Path, terminal: int) -> None:
    seen, limit = "", time.monotonic() + 60
    while answer.read_text().count(">>\n") < number:
        assert time.monotonic() < limit, seen
        if select.select([terminal], [], [], 0.02)[0]:
            seen += os.read(terminal, 4096).decode(errors="replace")
