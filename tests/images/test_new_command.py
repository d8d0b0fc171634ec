"""A command is one file: every door has it then, and not after. Completion's files are made."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEW = """
from ..present.json_documents.record import Document
from .framework.command import Answer, Context, command


class Hello(Document):
    said: str


@command("this tool", "hello")
def hello_command(context: Context) -> Answer:
    "Say hello."
    return Answer(Hello(said="hello"), ["hello from a file"])
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("bin", "common", "gdb"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def said(*words: object) -> str:
    return subprocess.run(
        list(map(str, words)), text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120
    ).stdout


def offers(checkout: Path) -> dict[str, bool]:
    """Whether the command is there, by what says so."""
    shell = (sys.executable, checkout / "bin" / "arenascope")
    seen = {
        "overview": "  hello     " in said(*shell, "--help"),
        "json": '"said": "hello"' in said(*shell, "hello", "--json"),
        "help": "example:\n  arenascope hello PID\n" in said(*shell, "hello", "--help"),
    }
    if shutil.which("gdb"):
        words = (f"source {checkout / 'gdb' / 'arena.py'}", "complete heap hel", "heap hello", "help heap hello")
        gdb = said(
            "gdb",
            "-nx",
            "-q",
            "-batch",
            *(word for each in words for word in ("-ex", each)),
        )
        seen["gdb"] = all(line in gdb.splitlines() for line in ("heap hello", "hello from a file", "Say hello."))
    return seen


def test_a_new_command_is_one_file(checkout: Path) -> None:
    assert not any(offers(checkout).values())
    command = checkout / "common" / "arenascope" / "commands" / "hello.py"
    command.write_text(f'"""heap hello."""\n{NEW}')
    assert all(offers(checkout).values()), offers(checkout)
    command.unlink()
    assert not any(offers(checkout).values())
