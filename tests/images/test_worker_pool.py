"""Work shared out among processes: the same bytes as by one, and nobody is left behind, whatever becomes of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import pytest
from marks import in_full
from subjects import Subject

from arenascope.base import worker_pool as crew
from arenascope.base.worker_pool import Meter, Unseen, share_out
from arenascope.cli.several_subjects import SubjectRequest, look
from arenascope.cli.shell import How
from arenascope.commands.all_commands import find_command
from arenascope.session import session as sessions

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("chunks --free --limit 7", "pins --limit 0 --ranges", "map", "check")
FIXTURES: Mapping[str, Sequence[str]] = {
    "arenas60": (),
    "many_heaps": ("3",),
    "fastbins": (),
    "foreign_sbrk": ("fake",),
    "pinned": ("thread",),
    "big": ("16",),
}
CUT = ("big",)
"""Those with heaps so long that they are cut."""
SMALL = ("arenas60", "many_heaps", "pinned")


class Counting:
    """How much is done, and by whom."""

    def __init__(self) -> None:
        self.forks = 0
        self.done = 0

    def advance(self, amount: int) -> None:
        self.done += amount


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    found, fork = Counting(), os.fork

    def counted() -> int:
        found.forks += 1
        return fork()

    monkeypatch.setattr(os, "fork", counted)
    return found


def said(core: Path, words: str, processes: int) -> str:
    """What a command says; of a look that must succeed."""
    name, *options = words.split()
    parsed = find_command(name).parser("arenascope").parse_args([*options, "--json"])
    seen = look(SubjectRequest(str(core), name, parsed, How(processes=processes, declared=False)))
    assert seen.error is None, seen.error
    return seen.text


def all_say_the_same(core: Path, counting: Counting) -> None:
    for words in COMMANDS:
        alone = said(core, words, 1)
        assert counting.forks == 0
        for processes in (2, 5):
            assert said(core, words, processes) == alone, f"{words}, {processes} processes"
        counting.forks = 0


@pytest.fixture
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Heaps are cut into short ones; how many cuts there were."""
    made: list[int] = []
    cut = sessions.cuts

    def counted(*args: Any, **options: Any) -> list[int]:
        found = cut(*args, **options)
        made.extend(found)
        return found

    monkeypatch.setattr(sessions, "SHORTEST", 64 << 10)
    monkeypatch.setattr(sessions, "cuts", counted)
    return made


@pytest.mark.parametrize("fixture", ["big", *in_full("fastbins", "foreign_sbrk", *SMALL)])
def test_one_two_and_five_say_the_same(fixture: str, counting: Counting, short_stretches: list[int]) -> None:
    with Subject(fixture, *FIXTURES[fixture]) as subject:
        all_say_the_same(subject.kernel_core(), counting)
        assert short_stretches or fixture not in CUT


@pytest.mark.parametrize(
    "kind",
    ["overflow", *in_full("wrong_arena", "size_grown", "top_overwrite", "use_after_free_fd")],
)
def test_of_damage_too(kind: str, counting: Counting, short_stretches: list[int]) -> None:
    with Subject("corrupt", kind) as subject:
        subject.send("tick")
        all_say_the_same(subject.kernel_core(), counting)


# the crew itself


def children() -> set[int]:
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return set(map(int, found))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No process, no zombie and no pipe."""
    open_before, children_before = len(os.listdir("/proc/self/fd")), children()
    yield
    assert children() <= children_before
    assert len(os.listdir("/proc/self/fd")) <= open_before


def shared(jobs: Sequence[int], do: Callable[[int, Meter], Any], meter: Optional[Meter] = None) -> list[Any]:
    with share_out(jobs, [1] * len(jobs), do, 3, meter or Unseen()) as results:
        return list(results)


def test_results_come_in_the_order_of_the_jobs() -> None:
    def do(job: int, _: Meter) -> tuple[int, int]:
        time.sleep(0.02 if job % 5 == 0 else 0)
        return job, os.getpid()

    found = shared(range(40), do)
    assert [job for job, _ in found] == list(range(40))
    assert os.getpid() not in {pid for _, pid in found}


def test_a_result_may_be_large() -> None:
    found = shared(range(4), lambda job, _: bytes([job]) * (3 << 20))
    assert found == [bytes([job]) * (3 << 20) for job in range(4)]


def test_what_a_worker_that_died_has_left_is_done_here() -> None:
    own = os.getpid()

    def do(job: int, _: Meter) -> tuple[int, bool]:
        if job in (3, 17) and os.getpid() != own:
            os.kill(os.getpid(), signal.SIGKILL)
        return job, os.getpid() == own

    found = shared(range(40), do)
    assert [job for job, _ in found] == list(range(40))
    assert {job for job, here in found if here} >= {3, 17}


def test_all_of_them_may_die() -> None:
    own = os.getpid()

    def do(job: int, _: Meter) -> int:
        if os.getpid() != own:
            os._exit(9)
        return job

    assert shared(range(40), do) == list(range(40))


def test_an_error_is_met_here() -> None:
    def do(job: int, _: Meter) -> int:
        if job == 11:
            raise ValueError("eleven")
        return job

    with pytest.raises(ValueError, match="eleven"):
        shared(range(40), do)


def test_no_more_processes_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError("fork")

    monkeypatch.setattr(os, "fork", refused)
    assert shared(range(5), lambda job, _: job) == [0, 1, 2, 3, 4]


def test_progress_is_the_sum() -> None:
    meter = Counting()
    shared(range(30), lambda _, telling: telling.advance(crew.REPORT_EVERY), meter=meter)
    assert meter.done == 30 * crew.REPORT_EVERY


def test_many_small_jobs_are_few_shares() -> None:
    assert shared(range(70_000), lambda job, _: job) == list(range(70_000))


def test_left_early_it_ends_all_at_once() -> None:
    started = time.monotonic()
    with share_out(range(4), [1] * 4, lambda job, _: time.sleep(60 if job else 0), 4, Unseen()) as results:
        next(results)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("whom", ["the group", "it alone"])
def test_ctrl_c_ends_all_of_them(whom: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, time\n"
        f"sys.path.insert(0, {str(ROOT / 'common')!r})\n"
        "from arenascope.base.worker_pool import share_out\n"
        "from arenascope.base.worker_pool import Unseen\n"
        "def do(job, meter):\n"
        "    os.write(1, b'began\\n')\n"
        "    time.sleep(100)\n"
        "try:\n"
        "    with share_out(range(3), [1, 1, 1], do, 3, Unseen()) as results:\n"
        "        next(results)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == ["began\n"] * 3
    (os.killpg if whom == "the group" else os.kill)(process.pid, signal.SIGINT)
    # to the end of what any of them could still write
    assert process.stdout.read() == "stopped\n"
    assert process.wait(30) == 0
    process.stdout.close()


def test_workers_end_soon_after_whoever_started_them_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, time\n"
        f"sys.path.insert(0, {str(ROOT / 'common')!r})\n"
        "from arenascope.base import worker_pool as crew\n"
        "from arenascope.base.worker_pool import Unseen\n"
        "def do(job, meter):\n"
        "    os.write(1, b'began\\n')\n"
        "    while True:\n"
        "        time.sleep(0.01)\n"
        "        meter.advance(crew.REPORT_EVERY)\n"
        "with crew.share_out(range(3), [1, 1, 1], do, 3, Unseen()) as results:\n"
        "    next(results)\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == ["began\n"] * 3
    process.kill()
    process.wait()
    # its end is that of the last one who could write
    assert process.stdout.read() == ""
    process.stdout.close()
