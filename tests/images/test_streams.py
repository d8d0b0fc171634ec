"""Where the shell's output goes: a full disk, nowhere, a terminal of few letters. One line at most, no traceback."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from marks import in_full
from shell_door import ARENASCOPE

ROOT = Path(__file__).resolve().parents[2]


def start(*words, shell="", **environment):
    """In a shell that redirects."""
    command = ["sh", "-c", f'exec "$0" "$@" {shell}', *ARENASCOPE, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, stdin=subprocess.DEVNULL, timeout=120, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("words", ["--help", "arenas --help", "arenas", "arenas --json", "chunks --limit 0"])
def test_a_full_disk(subject, words):
    done = start(*words.split(), *([subject.pid] if "--help" not in words else []), shell=">/dev/full")
    last = done.stderr.decode().splitlines()[-1]
    assert (last, done.returncode) == (f"arenascope: {os.strerror(errno.ENOSPC)}", 2)
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("shell", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(subject, shell):
    done = start("arenas", subject.pid, shell=shell)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert bool(done.stdout) == (shell == "2>&-")


@pytest.mark.parametrize("encoding", ["ascii", *in_full("latin-1", "utf-8")])
@pytest.mark.parametrize("words", ["chunks --summary", "map", "report --full"])
def test_letters_that_the_terminal_has_not(subject, words, encoding):
    done = start(*words.split(), subject.pid, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode(encoding)
    if words.startswith("chunks"):
        assert ("█" in text) == (encoding == "utf-8")
        assert ("#####" in text) == (encoding != "utf-8")
    assert "?" not in text
