"""What nobody foresaw: one line that can be sent, exit status 3, in every door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BROKEN = (
    "import arenascope.session.session as session\n"
    "def broken(self): raise IndexError('seven\\n\\x1b[31m')\n"
    "session.Session.located = property(broken)\n"
)
"""As if somebody had made a mistake in the walkers."""


def shell(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    code = f"{BROKEN}from arenascope.cli.main import main\nimport sys\nsys.exit(main({[*map(str, words)]!r}))"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "common"), **environment},
    )


def check_line(line: str) -> None:
    assert "IndexError: seven" in line
    assert "<string>:2 broken" in line
    assert "ARENASCOPE_DEBUG=1" in line
    assert "\x1b" not in line


def test_the_shell(subject):
    done = shell("arenas", subject.pid)
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("arenascope: ")
    check_line(line)


def test_the_traceback_where_it_is_asked_for(subject):
    done = shell("arenas", subject.pid, ARENASCOPE_DEBUG="1")
    assert done.returncode == 3
    assert "Traceback (most recent call last)" in done.stderr
    check_line(done.stderr.splitlines()[-1])


def test_as_a_document(subject):
    said = json.loads(shell("arenas", subject.pid, "--json").stdout)
    assert [each["id"] for each in said["problem_records"]] == ["internal-error"]


def test_one_of_many(subject):
    """The others are looked at all the same."""
    done = shell("arenas", subject.pid, "/dev/null")
    assert done.returncode == 3
    first, second = done.stdout.split("== ")[1:]
    check_line(first)
    assert second.count("/dev/null") == 2


@pytest.mark.parametrize("word", ["²", "0" * 5000, "1" * 5000])
def test_a_pid_that_is_none(word):
    done = subprocess.run(
        [sys.executable, "-m", "arenascope", "arenas", word],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "common")},
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert len(line) < 200


def test_a_folder_whose_name_steers_terminals(tmp_path):
    folder = tmp_path / "\x1b[31mred\x9b1m\nline"
    folder.mkdir()
    for words in (["arenas", str(folder)], ["diff", str(folder), str(folder)], ["snapshot", str(folder)]):
        done = subprocess.run(
            [sys.executable, "-m", "arenascope", *words],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT / "common")},
        )
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.replace("\ufffd", "").isprintable()
