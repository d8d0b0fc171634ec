"""One command over many subjects, and what is made of the lines: by parallel, a Job's shell line."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Iterator

import pytest
from looks import ROOT, completed, needs, plain_environment
from schemas import valid
from shell_door import ARENASCOPE
from subjects import Subject

pytestmark = pytest.mark.xdist_group("fleet")
NAMES = (("hoard", "2", "12"), ("bins",), ("pinned", "main", "40"))


def run(*words: object, **how: object) -> subprocess.CompletedProcess[str]:
    environment = plain_environment({"PYTHONPATH": str(ROOT / "common")})
    return completed(*words, status=None, env=environment, **how)


def arenascope(*words: object) -> subprocess.CompletedProcess[str]:
    return run(*ARENASCOPE, *words)


@pytest.fixture(scope="module")
def cores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Kernel cores of three programs, and a file that is none."""
    folder = tmp_path_factory.mktemp("cores")
    found = []
    for number, words in enumerate(NAMES):
        with Subject(*words) as subject:
            found.append(shutil.move(subject.kernel_core(), folder / f"core.{number}"))
    broken = folder / "core.9"
    broken.write_text("not a core")
    yield [*found, broken]
    shutil.rmtree(folder)


def alone(core: Path) -> dict:
    done = arenascope("report", "--json", "--quick", core)
    return valid(json.loads(done.stdout)) if done.stdout else {}


def test_a_line_for_each_in_their_order(cores: list[Path]) -> None:
    done = arenascope("report", "--jsonl", *cores)
    lines = [valid(json.loads(line)) for line in done.stdout.splitlines()]
    assert [line["subject"] for line in lines] == [str(core) for core in cores]
    assert done.returncode == 2
    assert str(cores[-1]) in lines[-1]["error"]
    assert lines[-1]["problem_records"][0]["id"] == "no-target"
    for line, core in zip(lines, cores[:-1]):
        subject = line.pop("subject")
        assert line == alone(core), subject


def test_live_processes_are_let_go(cores: list[Path]) -> None:
    with Subject("bins") as first, Subject("hoard", "2", "12") as second:
        done = arenascope("arenas", "--jsonl", first.pid, second.pid, cores[0])
        documents = [valid(json.loads(line)) for line in done.stdout.splitlines()]
        assert [each["target"]["kind"] for each in documents] == ["live", "live", "core"]
        for subject, document in zip((first, second), documents):
            assert document["target"]["pid"] == subject.pid
            assert sum(each["system_bytes"] for each in document["arenas"]) == subject.truth["mallinfo"]["arena"]
            assert subject.send("check") == "intact"


def test_text_of_several(cores: list[Path]) -> None:
    done = arenascope("report", *cores[:2])
    assert done.stdout.count("== ") == 2
    assert done.stdout.count("anonymous memory") >= 2


def test_gnu_parallel(cores: list[Path]) -> None:
    needs("parallel")
    done = run("parallel", "--will-cite", "-k", *ARENASCOPE, "report", "--jsonl", "{}", ":::", *cores)
    assert [valid(json.loads(line))["subject"] for line in done.stdout.splitlines()] == [str(core) for core in cores]


def test_the_job_s_command_line(cores: list[Path], tmp_path: Path) -> None:
    """Each pod's share, run here one after the other; together they are all cores, each once."""
    text = (ROOT / "examples" / "kubernetes-job.yaml").read_text()
    shell_line = " ".join(line.strip() for line in text.split(">-\n")[1].split("          env:")[0].splitlines())
    assert "$JOB_COMPLETION_INDEX" in shell_line
    tool = " ".join(ARENASCOPE)
    shell_line = (
        shell_line.replace("python3 /tool/arenascope.pyz", tool)
        .replace("/cores", str(cores[0].parent))
        .replace("/reports", str(tmp_path))
    )
    for index in range(2):
        environment = f"JOB_COMPLETION_INDEX={index} COUNT=2"
        run("sh", "-c", f"export {environment}; {shell_line}")
    subjects = [
        valid(json.loads(line))["subject"]
        for index in range(2)
        for line in (tmp_path / f"{index}.jsonl").read_text().splitlines()
    ]
    assert sorted(subjects) == sorted(str(core) for core in cores)
