"""A process by its name or its option, and the report where no command is named: in a shell, as it is typed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shell_door import arenascope
from subjects import Started, Subject

from arenascope.sources.live.proc_tables import is_kernel_thread
from arenascope.sources.live.processes_by_name import interpreter_called, names_of, other_pids, processes_called

ROOT = Path(__file__).resolve().parents[2]
NAME = f"f{os.getpid()}-familiar-line"
"""Nobody else's, also where the kernel has cut it."""


def typed(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return arenascope(*words, cwd=folder, status=None)


def pid_in(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["target"]["pid"])


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / NAME
    path.parent.mkdir()
    shutil.copy(ROOT / "fixtures" / "build" / "hoard", path)
    return path


def test_a_name_that_one_process_has(program: Path, tmp_path: Path) -> None:
    """By comm, which is shorter, or by the executable, also once that was replaced; with a word of the command's own
    beside it, and with options alike."""
    with Subject(program, "1") as subject:
        pid = subject.pid
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
        assert comm != NAME
        document = json.loads(typed(tmp_path, pid, "--json").stdout)
        assert (document["command"], document["target"]["pid"]) == ("report", pid)
        for line in (f"{NAME}", f"{comm}", f"-p {pid}", f"--pid={NAME}", f"-p {pid} report", f"/proc/{pid}"):
            found = json.loads(typed(tmp_path, *line.split(), "--json").stdout)
            assert (found["command"], found["target"]["pid"]) == ("report", pid), line
        for line in (f"arenas {NAME}", f"-p {NAME} arenas", f"chunk {NAME} 0x10", f"snapshot s.json {NAME}"):
            assert pid_in(typed(tmp_path, *line.split(), "--json")) == pid, line
        program.unlink()
        assert pid_in(typed(tmp_path, "arenas", NAME, "--json")) == pid
        # a file wins over a name, an option over a file
        (tmp_path / NAME).touch()
        (tmp_path / str(pid)).touch()
        for word in (NAME, pid):
            done = typed(tmp_path, "arenas", word)
            assert (done.returncode, f"{word} is" in done.stderr) == (2, True)
        assert pid_in(typed(tmp_path, "arenas", "-p", pid, "--json")) == pid
        assert pid_in(typed(tmp_path, "arenas", "-p", NAME, "--json")) == pid
        looked = typed(tmp_path, "watch", comm, "--count", "1")
        assert (looked.returncode, len(looked.stdout.splitlines())) == (0, 2), looked.stderr
        core = subject.kernel_core()
        assert pid_in(typed(tmp_path, "-c", core, "arenas", "--json")) == pid
        assert json.loads(typed(tmp_path, core, "--json").stdout)["command"] == "report"


def test_a_name_that_several_processes_have(program: Path, tmp_path: Path) -> None:
    """They are listed, the largest first, and none is looked at."""
    with Subject(program, "1") as small, Subject(program, "4") as large:
        for words in ([NAME], ["arenas", NAME, "--json"], ["watch", NAME], ["-p", NAME]):
            done = typed(tmp_path, *words)
            assert done.returncode == 2
            assert f"'{NAME}'" in done.stderr.splitlines()[0]
            assert [int(pid) for pid in re.findall(r"^ *([0-9]+) +[0-9.]+ MiB ", done.stderr, re.M)] == [
                large.pid,
                small.pid,
            ]
            if "--json" in words:
                assert json.loads(done.stdout)["problem_records"][0]["id"] == "usage"
            else:
                assert done.stdout == ""


def test_a_name_that_no_process_has(program: Path, tmp_path: Path) -> None:
    """One like it is offered."""
    with Subject(program, "1"):
        for words in (["arenas", f"{NAME}s"], [f"{NAME}s"], ["watch", f"{NAME}s"], ["-p", f"{NAME}s"]):
            done = typed(tmp_path, *words)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert f"mean {NAME}" in done.stderr


def test_a_script_that_an_interpreter_runs(tmp_path: Path) -> None:
    """Also from the folder where it lies; two of them are listed."""
    script, other = tmp_path / f"{NAME}.py", tmp_path / "other"
    script.write_text("print('ready', flush=True); input()")
    other.mkdir()
    words = [sys.executable, "-X", "dev", "-u", script.name, "of its own"]
    with Started(*words, cwd=tmp_path) as one:
        for folder in (tmp_path, other):
            for line in (script.name, f"arenas {script.name}", f"arenas -p {script.name}"):
                assert pid_in(typed(folder, *line.split(), "--json")) == one.pid, line
        assert f"mean {script.name}" in typed(other, "arenas", f"{NAME}.pz").stderr
        with Started(*words, cwd=tmp_path) as two:
            listed = typed(other, "arenas", script.name)
            assert listed.returncode == 2
            assert {f"{each.pid}" for each in (one, two)} == set(
                re.findall(r"^ *([0-9]+) +[0-9.]+ MiB ", listed.stderr, re.M)
            )


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("python3.11 -W ignore -u /srv/frag.py a.py", "/srv/frag.py"),
        ("python3 frag.py -c x", "frag.py"),
        ("python3 -Im http.server a.py", ""),
        ("python3 -Xdev -cprint() a.py", ""),
        ("python3", ""),
        ("perl -I lib -w job.pl", "job.pl"),
        ("perl -lane print a", ""),
        ("ruby -r json -- server.rb", "server.rb"),
        ("node --require ./first.js --inspect server.js", "server.js"),
        ("node --eval=1 a.js", ""),
        ("bash -e -o pipefail run.sh x", "run.sh"),
        ("sh -ec true a", ""),
        ("java -Xmx1g -cp a.jar -jar app.jar b.jar", "app.jar"),
        ("java -cp a.jar Main b.jar", ""),
        ("ssh host", None),
        ("cat a.py", None),
    ],
)
def test_which_word_is_the_script(line: str, file: str | None) -> None:
    words = line.split()
    interpreter = interpreter_called([words[0]])
    assert (None if interpreter is None else interpreter.file_in(words)) == file


def test_who_is_never_called() -> None:
    """This process itself, and what has no memory: a zombie here, the kernel's threads where it shows any."""
    own, other = os.getpid(), subprocess.Popen(["sleep", "0"])
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    for pid in (own, other.pid, *(pid for pid in other_pids() if is_kernel_thread(pid))):
        assert names_of(pid), pid
        assert pid not in {each.pid for name in names_of(pid) for each in processes_called(name)}
    other.wait()
