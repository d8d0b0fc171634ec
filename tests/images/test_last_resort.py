"""What nobody foresaw: one line that can be sent, exit status 3, in every door."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from shell_door import arenascope

ROOT = Path(__file__).resolve().parents[2]
BROKEN = """import sys; import arenascope.session.session as session; from arenascope.cli.main import main
def broken(self): raise IndexError('seven\\n\\x1b[31m')
session.Session.located = property(broken)
sys.exit(main(sys.argv[1:]))
"""
"""As if somebody had made a mistake in the walkers."""


def shell(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return arenascope(*words, code=BROKEN, status=None, variables=environment)


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
    done = arenascope("arenas", word, status=2)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert len(line) < 200


def test_a_folder_whose_name_steers_terminals(tmp_path):
    folder = tmp_path / "\x1b[31mred\x9b1m\nline"
    folder.mkdir()
    for words in (["arenas", str(folder)], ["diff", str(folder), str(folder)], ["snapshot", str(folder)]):
        (line,) = arenascope(*words, status=2).stderr.splitlines()
        assert line.replace("\ufffd", "").isprintable()
