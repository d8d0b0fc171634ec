"""Debug consoles of editors: the commands through lldb-dap and GDB's own DAP, as VS Code sends them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

import pytest
from dap import Dap
from doors import ARENA_PY
from lldb_door import LLDB_ARENA_PY, NEWEST_LLDB
from looks import ROOT, give_up, plain_environment
from marks import full_after
from platforms import BUILD, why_absent
from subjects import Subject

pytestmark = pytest.mark.xdist_group("editors")
NEW_GDB = BUILD / "gdb16"
ECHO = "(lldb) "
"""Before LLDB 20 its adapter repeats what was typed."""
ABOUT_THE_LOOK = ("door", "held_seconds")


NEWEST = NEWEST_LLDB.version
VERSIONS = sorted({19, NEWEST})


def lldb_dap(version: int) -> Dap:
    name = f"lldb-dap-{version}"
    if version < 18:
        pytest.skip("lldb-dap comes with LLDB 18")
    if not shutil.which(name):
        give_up(f"{name} is not installed")
    return Dap([name])


def gdb_dap() -> Dap:
    root = NEW_GDB / "root"
    if not (NEW_GDB / "version").exists():
        give_up(f"no GDB with DAP: {why_absent(NEW_GDB)}")
    loader = [f"{root}/lib64/ld-linux-x86-64.so.2", "--library-path", f"{root}/usr/lib/x86_64-linux-gnu"]
    gdb = [f"{root}/usr/bin/gdb", "--data-directory", f"{root}/usr/share/gdb", "-nx", "-q", "-i=dap"]
    return Dap([*loader, *gdb, "-x", str(ARENA_PY)], {"PYTHONHOME": f"{root}/usr"})


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with Subject("hoard", "2", "12") as subject:
        yield subject


@pytest.fixture(scope="module")
def core(subject: Subject) -> Path:
    return subject.gcore()


def by_the_shell(image: object, *words: str) -> Any:
    argv = [sys.executable, str(ROOT / "bin" / "arenascope"), words[0], str(image), *words[1:], "--json"]
    done = subprocess.run(argv, env=plain_environment(), capture_output=True, text=True, check=True, timeout=100)
    return figures(done.stdout)


def figures(text: str) -> Any:
    document = json.loads(text)
    del document["glibc"]["located_by"]
    return {key: value for key, value in document.items() if key not in ABOUT_THE_LOOK}


def said(answer: Any) -> str:
    """What the console shows of it."""
    body = answer.get("body") or {}
    text: str = body["result"] if answer["success"] else answer.get("message") or body["error"]["format"]
    assert "\x1b" not in text
    assert "\r" not in text
    first, _, rest = text.partition("\n")
    return rest if first.startswith(ECHO) else text


def frame_of(dap: Dap) -> int:
    dap.wait_for("stopped")
    thread = dap.ask("threads", {})["body"]["threads"][0]["id"]
    number: int = dap.ask("stackTrace", {"threadId": thread})["body"]["stackFrames"][0]["id"]
    return number


def is_whole(dap: Dap, image: object, frame: Optional[int], escape: str) -> None:
    """The answers are the shell's, and nothing else comes over the line."""

    def typed(line: str) -> Any:
        return dap.typed(f"{escape}{line}", frame)

    assert figures(said(typed("heap arenas --json"))) == by_the_shell(image, "arenas")
    assert figures(said(typed("heap bins --json"))) == by_the_shell(image, "bins")
    # nobody cuts columns or breaks rows where there is no terminal
    rows = said(typed("heap arenas --table tsv")).splitlines()
    assert len({row.count("\t") for row in rows if "\t" in row}) == 1
    assert sum(row.count("\t") > 8 for row in rows) >= 5
    verdict = by_the_shell(image, "report")["verdict"]
    report = said(typed("heap report"))
    assert verdict.split(",")[0].split(": ")[1] in " ".join(report.split())
    assert "next: " in report
    assert "arena 77" in said(typed("heap bins --arena 77"))
    assert said(typed("heap trim --apply")).strip()
    assert said(typed("heap version")).startswith("arenascope ")
    assert dap.stray == b""
    assert dap.process.poll() is None


@pytest.mark.parametrize("version", full_after(1, VERSIONS))
def test_lldb_dap_on_a_core(version: int, subject: Subject, core: Path) -> None:
    with lldb_dap(version) as dap:
        load = {"initCommands": [f"command script import {LLDB_ARENA_PY}"]}
        assert dap.begin("attach", {"program": str(subject.program), "coreFile": str(core), **load})["success"]
        assert "rror" not in dap.output()
        is_whole(dap, core, frame_of(dap), "`")
        assert "invalid command" in said(dap.typed("`heap arenaz")) or version > 19


@pytest.mark.full
@pytest.mark.parametrize("version", VERSIONS)
def test_lldb_dap_on_a_process(version: int, subject: Subject) -> None:
    with lldb_dap(version) as dap:
        load: dict[str, Sequence[str]] = {"initCommands": [f"command script import {LLDB_ARENA_PY}"]}
        assert dap.begin("attach", {"pid": subject.pid, "stopOnEntry": True, **load})["success"]
        text = said(dap.typed("`heap arenas --json", frame_of(dap)))
    assert figures(text) == by_the_shell(subject.pid, "arenas")


@pytest.mark.full
def test_gdb_s_own_dap(subject: Subject) -> None:
    with gdb_dap() as dap:
        assert dap.begin("attach", {"program": str(subject.program), "pid": subject.pid})["success"]
        assert "unlimited" in said(dap.typed("show width"))
        answer = dap.typed("heap arenaz")
        assert not answer["success"]
        assert "arenas" in answer["message"]
        texts = {line: said(dap.typed(line)) for line in ("heap arenas --json", "heap bins --json", "heap report")}
        refused = dap.typed("heap trim --apply")
        assert not refused["success"]
        assert said(refused)
        # what writes past GDB goes to the console, as the program's own output does
        written = dap.typed("python import os; os.write(1, b'stray\\n')")
        assert written["success"]
        dap.wait_for("output")
        assert "stray" in dap.output()
        assert dap.stray == b""
    for command in ("arenas", "bins"):
        assert figures(texts[f"heap {command} --json"]) == by_the_shell(subject.pid, command)
    assert "next: " in texts["heap report"]


CANCELLED_AFTER = 0.4


@pytest.mark.full
@pytest.mark.parametrize("adapter", ["gdb", "lldb-dap"])
def test_what_takes_long_is_cancelled(adapter: str) -> None:
    """The next command is answered as ever."""
    with Subject("big") as subject, gdb_dap() if adapter == "gdb" else lldb_dap(NEWEST) as dap:
        if not dap.capabilities["body"].get("supportsCancelRequest"):
            pytest.skip("this adapter cancels nothing")
        load = {"initCommands": [f"command script import {LLDB_ARENA_PY}"], "stopOnEntry": True}
        assert dap.begin("attach", {"pid": subject.pid, **(load if adapter != "gdb" else {})})["success"]
        frame, escape = (frame_of(dap), "`") if adapter != "gdb" else (None, "")
        whole = said(dap.typed(f"{escape}heap check", frame))
        number = dap.begin_typing(f"{escape}heap check", frame)
        time.sleep(CANCELLED_AFTER)
        dap.send("cancel", {"requestId": number})
        answer = dap.answer(number)
        assert not answer["success"] or "stopped after" in said(answer)
        assert said(dap.typed(f"{escape}heap check", frame)) == whole
        assert "stopped after" not in whole
        assert dap.stray == b""
