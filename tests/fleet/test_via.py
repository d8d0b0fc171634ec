"""arenascope fleet --via: processes of other hosts, which are here this machine by way of a command, and of ssh."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence

import pytest
from looks import give_up, plain_environment
from marks import full_after
from schemas import valid
from shell_door import ARENASCOPE, arenascope, begin
from subjects import Subject
from waiting import await_that, state

from arenascope import engine
from arenascope.cli.fleet.via import END, READY

pytestmark = pytest.mark.xdist_group("via")
SECONDS = 120
SSHD = "/usr/sbin/sshd"
WAITS = "sh -c 'echo $$ >{}; exec sleep 600'"


def start(*words: object, **environment: str) -> subprocess.Popen[str]:
    return begin("fleet", *words, env=plain_environment(environment))


def fleet(status: int, *words: object, **environment: str) -> tuple[dict[str, Any], list[str]]:
    """Documents by their subject, and what was said besides."""
    with start(*words, **environment) as process:
        try:
            told, said = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    assert process.returncode == status, said
    documents = [json.loads(line) for line in told.splitlines()]
    return {each.pop("subject"): valid(each) for each in documents}, said.splitlines()


def alone(pid: int) -> dict[str, Any]:
    return dict(json.loads(arenascope("report", pid, "--json", "--quick").stdout))


def test_a_document_is_what_the_host_would_say(tmp_path: Path) -> None:
    with Subject("bins") as subject:
        found, said = fleet(0, subject.pid, subject.pid, "--via", "env", "--via", "env", TMPDIR=str(tmp_path))
        expected = alone(subject.pid)
    (document,) = found.values()
    assert [*found] == [f"env: {subject.pid}"]
    assert document["parts"] == expected["parts"]
    assert document["causes"] == expected["causes"]
    assert len(said) == 1
    assert [*tmp_path.iterdir()] == []


def test_a_host_gets_the_engine_too() -> None:
    """Loaded from memory there."""
    if not engine.is_there():
        pytest.skip("the engine is not built: make engine")
    with Subject("bins") as subject:
        found, _ = fleet(0, subject.pid, "--via", "env", "--command", "owners")
    (document,) = found.values()
    assert document["complete"]
    assert document["owners"]


def test_a_page_says_who_differs(tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    with Subject("bins") as one, Subject("tcache") as two, Subject("hoard") as worst:
        pids = (one.pid, two.pid, worst.pid)
        found, _ = fleet(2, *pids, "nobody-is-called-so", "--via", "env", "--jsonl", "--html", page)
    data = json.loads(page.read_text().partition('id="data">')[2].partition("</script>")[0])
    rows, reports = data["rows"], [f"env: {each}" for each in pids]
    assert rows[0]["subject"] == f"env: {worst.pid}"
    assert {row["subject"] for row in rows} == {*reports}
    (problem,) = data["problems"]
    assert problem.startswith("env: nobody-is-called-so: ")
    parts = {each: {part["part"]: part["bytes"] for part in found[each]["parts"]} for each in reports}
    for row in rows:
        its = parts[row["subject"]]
        assert (row["trim"], row["stranded"], row["rss"]) == (its["returnable"], its["scraps"], sum(its.values()))
        medians = {part: sorted(each[part] for each in parts.values())[1] for part in its}
        assert row["above"] == max(0, *(its[part] - medians[part] for part in its))
        if row["differs"]:
            assert row["median"] == medians[row["differs"]]


def test_a_host_that_fails_is_one_line_and_the_rest_goes_on(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    pretends = "import sys; sys.version_info = (3, 8); exec(sys.argv[1])"
    old.write_text(f"""#!/bin/sh\nexec {sys.executable} -I -c '{pretends}' "$3"\n""")
    old.chmod(0o755)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "sh").symlink_to("/bin/sh")
    fails = {
        "no-such-command here": "cannot be started",
        "env sh -c 'exit 3'": "status 3",
        "env sh -c 'echo no way in >&2; exit 255'": "no way in",
        f"env PATH={tmp_path}:/usr/bin:/bin": "needs Python 3.9 or newer, and this is 3.8",
        f"env PATH={tmp_path}/none": "python3: not found",
    }
    with Subject("bins") as subject:
        vias = [word for via in (*fails, "env") for word in ("--via", via)]
        found, said = fleet(2, subject.pid, "nobody-is-called-so", *vias)
    assert found.pop(f"env: {subject.pid}")["parts"]
    assert found.pop("env: nobody-is-called-so")["problem_records"][0]["id"] == "no-target"
    assert set(found) == set(fails)
    are_told(fails, found, said)
    assert len(said) == len(fails) + 2


def are_told(fails: Mapping[str, str], found: dict[str, Any], said: Sequence[str]) -> None:
    for via, why in fails.items():
        assert why in found[via]["error"]
        assert sum(line.startswith(f"{via}: ") and why in line for line in said) == 1, said


def test_a_host_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    silent = WAITS.format(tmp_path / "pid")
    found, said = fleet(2, "1", "--seconds", "5", "--via", silent)
    are_told({silent: "no answer within 5 s"}, found, said)
    assert state(int((tmp_path / "pid").read_text())) in ("", "Z")


PART = '{"part": "live", "label": "in use", "bytes": 1}'
ANSWERS = (
    "no JSON",
    "[" * 100_000,
    "[1, 2, 3, 4]",
    '{"subject": 1}',
    '{"subject": "1", "parts": 7}',
    '{"subject": "1", "verdict": {"much": 1}}',
    '{"subject": "1", "error": "\\ud800"}',
    *(
        f'{{"subject": "1", "rss_bytes": {rss}, "parts": [{part}], "causes": {causes}, "measure": {measure}}}'
        for rss, part, causes, measure in (
            ('"much"', PART, "[]", '"rss"'),
            ("1e400", PART, "[]", '"rss"'),
            ("99999999999999999999", PART, "[]", '"rss"'),
            ("1", '{"part": "live"}', "[]", '"rss"'),
            ("1", PART, "[7]", '"rss"'),
            ("1", PART, "[]", "[]"),
        )
    ),
)


def answering(folder: Path, *lines: str) -> str:
    """A host that answers so, whatever it is asked."""
    path = folder / f"answer-{len([*folder.iterdir()])}"
    path.write_text("\n".join((READY, *lines, END, "")))
    (folder / "sh").touch()
    return f"cat {path} -- /dev/null"


def test_an_answer_that_is_none_of_ours_is_an_error(tmp_path: Path) -> None:
    vias = [word for answer in ANSWERS for word in ("--via", answering(tmp_path, answer))]
    done = arenascope("fleet", 1, *vias, cwd=tmp_path, status=2)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(ANSWERS)
    assert {each["error"] for each in told} == {"its answer is none of arenascope's"}


@pytest.mark.parametrize(
    ("word", "answers", "taken", "why"),
    [
        ("1", ["1", "1"], ["1"], "it answers twice for 1"),
        ("1", ["2"], [], "it answers for 2, which was not asked for"),
        ("init", ["1", "2"], ["1", "2"], None),
        ("init", ["1", "other"], ["1"], "it answers for other, which was not asked for"),
        ("init", [str(pid) for pid in range(1, 20_000)], None, "it answers with more than 10,000 lines"),
    ],
)
def test_a_question_has_one_answer(
    word: str, answers: Sequence[str], taken: Optional[Sequence[str]], why: Optional[str], tmp_path: Path
) -> None:
    via = answering(tmp_path, *(json.dumps({"subject": each}) for each in answers))
    done = arenascope("fleet", word, "--via", via, cwd=tmp_path, status=None)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    errors = [each["error"] for each in told if "error" in each]
    assert errors == ([why] if why else [])
    assert len(told) <= 10_001
    if taken is not None:
        assert [each["subject"] for each in told if "error" not in each] == [f"{via}: {each}" for each in taken]
    assert [line for line in done.stderr.splitlines() if line.startswith(via)] == ([f"{via}: {why}"] if why else [])


# a process counts as its own what its parent had in memory when it was started, and pytest has much
MOST_MEMORY = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize("says", full_after(1, ["", READY]), ids=["before", "after"])
@pytest.mark.parametrize("endless", ["cat /dev/zero", "yes"], ids=["one line", "lines"])
def test_what_a_host_says_has_an_end(says: str, endless: str, tmp_path: Path) -> None:
    hosts = [f"sh -c 'echo {says}; exec {endless}' {number}" for number in range(2)]
    began = time.monotonic()
    words = [word for via in hosts for word in ("--via", via)]
    command = [*ARENASCOPE, "fleet", "1", "--seconds", "200", *words]
    done = subprocess.run([sys.executable, "-c", MOST_MEMORY, *command], capture_output=True, text=True, timeout=300)
    *lines, most = done.stderr.splitlines()
    assert done.returncode == 2
    assert int(most) < 120 << 10
    assert time.monotonic() - began < 200
    # the first of the lines may be read alone
    wrong = ["10,000 lines", "none of arenascope's"] if endless == "yes" else ["16 MiB"]
    for via in hosts:
        assert sum(line.startswith(f"{via}: ") and any(why in line for why in wrong) for line in lines) == 1, lines


def test_an_interrupt_ends_what_was_started(tmp_path: Path) -> None:
    with start(1, "--via", WAITS.format(tmp_path / "pid")) as process:
        await_that(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, said) == (130, "arenascope: stopped\n")
    assert state(int((tmp_path / "pid").read_text())) in ("", "Z")


def at_the_other_end() -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:3] == [b"-I", b"-c"] and READY.encode() in words[3]:
            found.append(int(each.parent.name))
    return found


def killed_while_it_holds(*via: str) -> None:
    """The other end is told nothing: its input ends."""
    with Subject("hoard") as subject:
        before = {*at_the_other_end()}
        with start(subject.pid, "--command", "check", *via) as process:
            await_that(lambda: {*at_the_other_end()} - before)
            looking = {*at_the_other_end()} - before
            await_that(lambda: state(subject.pid) == "t")
            process.kill()
            assert process.stdout.read() == ""
        await_that(lambda: {*map(state, looking)} <= {"", "X", "Z"})
        await_that(lambda: state(subject.pid) == "S")


def test_killed_while_it_holds_a_process() -> None:
    killed_while_it_holds("--via", "env")


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """By ssh the host `here` is a server of our own on loopback; nobody answers at `nowhere`."""
    if not Path(SSHD).exists() or not shutil.which("ssh"):
        give_up("sshd is not installed: scripts/setup.sh all has it")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.socket() as free, socket.socket() as shut:
        free.bind(("127.0.0.1", 0))
        shut.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        (folder / "sshd").write_text(
            f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
            f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        )
        host_key = (folder / "host.pub").read_text()
        (folder / "known").write_text(f"[127.0.0.1]:{port} {host_key}")
        (folder / "ssh").write_text(
            f"Host *\n HostName 127.0.0.1\n BatchMode yes\n IdentityFile {folder}/user\n IdentitiesOnly yes\n"
            f" UserKnownHostsFile {folder}/known\n"
            f"Host here\n Port {port}\nHost nowhere\n Port {shut.getsockname()[1]}\n"
        )
        free.close()
        with subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd"], stderr=subprocess.DEVNULL) as sshd:
            try:
                await_that(lambda: answers(port))
                yield f"ssh -F {shlex.quote(str(folder / 'ssh'))}"
            finally:
                sshd.terminate()


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port)):
            return True
    except OSError:
        return False


@pytest.mark.full
def test_by_ssh(tmp_path: Path) -> None:
    with server(tmp_path) as ssh, Subject("bins") as subject:
        (tmp_path / "home").mkdir()
        here = f"{ssh} here env HOME={tmp_path}/home TMPDIR={tmp_path}/home"
        found, said = fleet(2, subject.pid, "--via", here, "--via", f"{ssh} nowhere")
        expected = alone(subject.pid)
    assert [*(tmp_path / "home").iterdir()] == []
    assert found[f"{here}: {subject.pid}"]["parts"] == expected["parts"]
    assert "Connection refused" in found[f"{ssh} nowhere"]["error"]
    assert len(said) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["1", "--via", "ssh 'a"], "ssh 'a"),
        (["1", "--via", ""], "--via"),
        (["1", "--via", "env", "--seconds", "0"], "--seconds"),
        (["1", "--via", "env", "--engine", "dask"], "--engine"),
    ],
)
def test_one_line_says_what_is_wrong(words: list[str], said: str) -> None:
    found, (line,) = fleet(2, *words)
    assert found == {}
    assert line.startswith("arenascope fleet: ")
    assert said in line
