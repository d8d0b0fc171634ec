"""The shell door on processes as they come: held and let go, in other namespaces, on a libc that was deleted."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from schemas import valid
from shell_door import ARENASCOPE, arenascope
from subjects import Started, Subject
from waiting import await_that, state

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "fixtures" / "build"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and other users need root")


class Running(Started):
    """A fixture that was started with these words in front of it: its own pid, as the host sees it."""

    def __init__(self, folder, *command):
        super().__init__(*command)
        self.folder = folder
        assert self.said.startswith("ready")
        self.pid = next(iter(children(self.process.pid)), self.process.pid)

    def end(self):
        for pid in children(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        super().end()

    @property
    def info(self):
        return (self.folder / "info.xml").read_text()


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def bins(tmp_path):
    with Running(tmp_path, BUILD / "bins", tmp_path) as running:
        yield running


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("bin/arenascope", "bin/arenascope"),
        ("arenascope", "arenascope"),
        pytest.param(f"{ROOT}/bin/arenascope", f"{ROOT}/bin/arenascope", marks=pytest.mark.full),
        pytest.param("python3 {app}", "python3 {app}", marks=pytest.mark.full),
    ],
)
def test_what_comes_next_can_be_pasted(bins, tmp_path, typed, named):
    """It names arenascope as whoever typed it can: from a checkout it is on nobody's PATH."""
    app = tmp_path / "arenascope.pyz"
    if "app" in typed:
        subprocess.run([sys.executable, ROOT / "scripts" / "pack.py", app], check=True, timeout=60)
    path = os.environ["PATH"] if typed != "arenascope" else f"{ROOT / 'bin'}:{os.environ['PATH']}"

    def told(line):
        done = subprocess.run(
            ["sh", "-c", line], cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    answer = told(f"{typed.format(app=app)} arenas {bins.pid}")
    (after,) = (line for line in answer if line.startswith("next: "))
    assert after.startswith(f"next: {named.format(app=app)} trim {bins.pid},")
    assert told(after[len("next: ") :].partition(",")[0])


@pytest.mark.parametrize("how", [[], ["--stop", "signal"], ["--no-stop"]], ids=["ptrace", "signal", "no stop"])
def test_lets_the_process_go(bins, how):
    done = arenascope("info", bins.pid, *how)
    assert done.stdout == bins.info
    assert state(bins.pid) in "RS"  # on its way to sleep again
    said = "two readings agreed" if "--no-stop" in how else rf"process {bins.pid} stood still for [0-9.]+ ms"
    assert re.search(said, done.stderr)


def test_a_document_says_for_how_long_it_was_held(bins):
    held = json.loads(arenascope("arenas", bins.pid, "--json").stdout)["held_seconds"]
    assert 0 < held < 60
    twice = arenascope("report", bins.pid, "--json", "--again", "0.01")
    (told,) = re.findall(r"stood still for ([0-9.]+) ms \(2 stops\)", twice.stderr)
    assert json.loads(twice.stdout)["held_seconds"] == pytest.approx(float(told) / 1000, abs=0.001)
    assert json.loads(arenascope("arenas", bins.pid, "--json", "--no-stop").stdout)["held_seconds"] is None


def test_a_hold_is_as_long_as_it_may_be(tmp_path):
    """It is let go, whatever was not read by then."""
    with Running(tmp_path, BUILD / "big", tmp_path, "160") as running:
        for words in (["chunks", "--summary"], ["arenas"]):
            done = arenascope(*words, running.pid, "--hold-at-most", "1", status=2)
            assert re.search(rf"process {running.pid} .* 0\.001 s \(--hold-at-most \d+s ", done.stderr)
            # where we let it go before its guard did, for how long it was held
            paused = len(re.findall(r"^process \d+ .* [0-9.]+ m?s", done.stderr, re.MULTILINE))
            assert (done.stdout, done.stderr.count("\n") - paused) == ("", 1)
            await_that(lambda: state(running.pid) == "S")
        for most in ("120000", "120s", "2m"):
            assert arenascope("arenas", running.pid, "--hold-at-most", most).stdout
        for wrong, told in (
            ("0", "0s"),
            ("120001", "120.001s"),
            ("3m", "180s"),
            ("-1", "-1"),
            ("nan", "nan"),
            ("2x", "2x"),
        ):
            said = arenascope("arenas", running.pid, f"--hold-at-most={wrong}", status=2).stderr
            assert (told in said, said.count("\n")) == (True, 1)


def test_a_python_without_ctypes(bins, tmp_path):
    """As in minimal images: ptrace is out of reach, a signal is not."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['_ctypes'] = None\n")
    done = arenascope("info", bins.pid, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.stdout == bins.info
    assert re.search("^note: .*ctypes", done.stderr, re.MULTILINE)
    assert state(bins.pid) in "RS"  # on its way to sleep again


def test_a_stopped_process_stays_stopped(bins):
    os.kill(bins.pid, signal.SIGSTOP)
    await_that(lambda: state(bins.pid) == "T")
    for how in ([], ["--stop", "signal"]):
        assert arenascope("info", bins.pid, *how).stdout == bins.info
        await_that(lambda: state(bins.pid) == "T")  # a thread that was let go is on its way to its stop for a moment
    os.kill(bins.pid, signal.SIGCONT)


MOST_MODULES = {"--version": 40, "arenas": 88, "trim": 90}
"""How many of our own modules a command may load."""


@pytest.mark.parametrize("command", MOST_MODULES)
def test_a_command_loads_few_modules(command, bins):
    words = [command] if command.startswith("-") else [command, str(bins.pid)]
    code = """
import sys
from arenascope.cli.main import main
status = main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(status)"""
    done = arenascope(*words, code=code)
    loaded = done.stderr.splitlines()[-1].split()
    assert sum(name.startswith("arenascope") for name in loaded) <= MOST_MODULES[command]
    # names of types, and tables in the formats of other programs
    assert not {"arenascope.blocks", "tabulate"} & set(loaded)


def test_no_stop_says_when_nothing_agrees(tmp_path):
    with Running(tmp_path, BUILD / "churn", tmp_path) as running:
        done = arenascope("arenas", running.pid, "--no-stop", "--json", status=None)
        assert done.returncode in (0, 2)
        assert str(running.pid) in done.stderr


@needs_root
def test_another_pid_namespace(tmp_path):
    if subprocess.run(["unshare", "-pfm", "--mount-proc", "true"], capture_output=True).returncode:
        pytest.skip("unshare is refused here (not root, or a root directory that is no mount: chroot)")
    with Running(tmp_path, "unshare", "-pfm", "--mount-proc", BUILD / "bins", tmp_path) as running:
        assert running.pid != running.process.pid
        assert arenascope("info", running.pid).stdout == running.info
        threads = valid(json.loads(arenascope("threads", running.pid, "--json").stdout))["threads"]
        assert running.pid in [thread["tid"] for thread in threads]
        assert {thread["name"] for thread in threads} == {"bins", "worker-1", "worker-2"}


def test_a_libc_that_was_deleted(tmp_path):
    """As an upgrade does it: the mapped file is gone from the disk."""
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    copy = tmp_path / "lib"
    copy.mkdir()
    shutil.copy(libc, copy)
    command = ["env", f"LD_LIBRARY_PATH={copy}", str(BUILD / "bins"), str(tmp_path)]
    with Running(tmp_path, *command) as running:
        (copy / "libc.so.6").unlink()
        assert "(deleted)" in Path(f"/proc/{running.pid}/maps").read_text()
        assert arenascope("info", running.pid).stdout == running.info
        assert valid(json.loads(arenascope("arenas", running.pid, "--json").stdout))["glibc"]["version"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense", "1"], "'nonsense'"),
        (["arenas", "/nonexistent"], "cannot open /nonexistent"),
        (["arenas", "999999999"], "999999999"),
        (["arenas", "/etc/passwd"], "/etc/passwd"),
        (["help", "nonsense"], "'nonsense'"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(words, said):
    done = arenascope(*words, status=2)
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["arenas", "/nonexistent"],
        ["report", "999999999"],
        ["check"],
    ],
)
def test_a_document_that_there_is_none_of_says_why(words):
    """As a line of --jsonl does; people read the same beside it."""
    done = arenascope(*words, "--json", status=2)
    document = valid(json.loads(done.stdout))
    assert (document["command"], document["complete"]) == (words[0], False)
    assert "subject" not in document
    # of a process that could be stopped it is also told for how long it was
    said = [line for line in done.stderr.splitlines(keepends=True) if not line.startswith("process ")]
    assert said == [f"arenascope {words[0]}: {document['error']}\n"]
    if done.stderr.count("--help") == 0 and len(words) > 1:
        assert json.loads(arenascope(*words, "--jsonl", status=2).stdout) == {"subject": words[-1], **document}


def test_a_snapshot_goes_into_a_pipe(bins):
    """The pipe is not read to see whether it is a core: that would wait for ever."""
    assert arenascope("snapshot", "/dev/stdout", bins.pid).stdout.startswith("{")


def test_a_snapshot_does_not_take_a_core_s_place(bins, tmp_path):
    core = tmp_path / "a.core"
    shutil.copy(BUILD / "bins", core)
    assert str(core) in arenascope("snapshot", bins.pid, core, status=2).stderr
    assert core.read_bytes().startswith(b"\x7fELF")


def test_a_block_in_the_way_of_free_is_none_in_the_way_of_a_trim():
    """What pins names waits for no block: its hint leads there. The program has freed 100 MiB in front of it."""
    with Subject("pinned", guard_regions=False) as subject:
        hint = arenascope("pins", subject.pid).stdout
        (word,) = re.findall(rf" (\w+) {subject.pid} \(what a trim returns while they stay\)", hint)
        answer = arenascope(word, subject.pid).stdout
        before = subject.rollup("Rss")
        assert subject.send("trim") == "trimmed 1"
        (said,) = re.findall(r"would return ([\d.]+) MiB", answer)
        assert abs(float(said) - (before - subject.rollup("Rss")) / 1024**2) < 0.1


def test_trim_apply_wants_somebody_to_ask(bins):
    refused = arenascope("trim", bins.pid, "--apply", status=2).stderr
    assert "-y" in refused
    assert "stood still" not in refused


@pytest.mark.parametrize("answer", ["n", "y"])
def test_trim_apply_asks_with_what_it_would_bring(answer):
    """And the process is not held while a user thinks."""
    with Subject("hoard", "4", "16") as subject, contextlib.ExitStack() as stack:
        ours, theirs = os.openpty()
        stack.callback(os.close, ours)
        command = [*ARENASCOPE, "trim", str(subject.pid), "--apply"]
        with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
            os.close(theirs)
            asked = b""
            while not asked.endswith(b"(y or n) "):
                more = asking.stderr.read(1)
                assert more, asked
                asked += more
            status = Path(f"/proc/{subject.pid}/status").read_text()
            assert "TracerPid:\t0\n" in status
            os.write(ours, f"{answer}\n".encode())
            done, told = asking.communicate(timeout=60)
        ((brings, total, unit, looked),) = re.findall(
            rf"hoard \({subject.pid}\)\?.* ([\d.]+ MiB) .* ([\d.]+) (m?s) .* (\d+) ms ", asked.decode()
        )
        assert (f"{brings} returned" in done.decode()) is (answer == "y")
        ((stood, stops),) = re.findall(r"stood still for ([\d.]+) ms( \(2 stops\))?", told.decode())
        # what was agreed to is more than the look before, and not a fraction of what came
        assert bool(stops) is (answer == "y")
        assert int(looked) + 50 <= float(total) * (1000 if unit == "s" else 1) + 5
        if answer == "n":
            assert abs(int(looked) - float(stood)) <= 1
        assert subject.send("check") == "intact"


TRACES = """
import ctypes, os, sys
os.write(os.open("/proc/self/comm", os.O_WRONLY), sys.argv[2].encode())
seized = ctypes.CDLL(None, use_errno=True).ptrace(0x4206, int(sys.argv[1]), None, None)
print(seized, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", [[], ["--no-stop"]], ids=["held", "no stop"])
@pytest.mark.parametrize("name", ["gdb", "lldb-server", "strace"])
def test_trim_apply_names_who_traces_the_process(bins, name, how):
    """And says what can be done there: no option of ours helps."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", TRACES, str(bins.pid), name], **pipes) as tracer:
        assert tracer.stdout.readline() == "0\n"
        refused = arenascope("trim", bins.pid, "--apply", "-y", *how, status=2).stderr
        tracer.stdin.close()
    assert f"{name} ({tracer.pid}) " in refused
    assert str(bins.pid) in refused
    assert ("`heap trim --apply`" in refused) is (name != "strace")
    assert "--no-stop" not in refused
    # nobody does any more
    assert "no-stop" in arenascope("trim", bins.pid, "--apply", "-y", "--no-stop", status=2).stderr


def test_a_closed_pipe_is_no_error(bins):
    script = f"{' '.join(ARENASCOPE)} bins {bins.pid} --limit 0 2>/dev/null | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.count("\n") == 1
    assert done.returncode in (0, 141)
    assert "Traceback" not in done.stderr
