"""Debug consoles of editors: the commands through lldb-dap and GDB's own DAP, as VS Code sends them."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence

import pytest
from lifetimes import dies_with_us
from lldb_door import LLDB_ARENA_PY, NEWEST_LLDB
from looks import HERE, ROOT, give_up, plain_environment
from marks import full_after
from subjects import Subject

SECONDS = 100.0
VS_CODE: Mapping[str, Any] = json.loads((HERE / "vscode_dap.json").read_text())
"""What VS Code says of itself, and the form in which it sends a line of its debug console."""


class Dap:
    """`with Dap(argv) as dap`: an adapter, from its first message to its last."""

    def __init__(self, argv: Sequence[str], variables: Optional[dict[str, str]] = None) -> None:
        self.argv, self.variables = argv, variables

    def __enter__(self) -> Dap:
        self.process = subprocess.Popen(
            self.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=plain_environment(self.variables),
            preexec_fn=dies_with_us(),
        )
        self.number = 0
        self.events: list[Any] = []
        self.stray = b""
        """What stood on standard output between messages: nothing may."""
        self._heard: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._drain, daemon=True).start()
        self.capabilities = self.ask("initialize", VS_CODE["initialize"])
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.send("disconnect", {"terminateDebuggee": False})
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _drain(self) -> None:
        while self.process.stderr.read1(65536):
            pass

    def _listen(self) -> None:
        output = self.process.stdout
        assert output is not None
        while True:
            head = output.readline()
            if not head:
                self._heard.put(None)
                return
            if not head.startswith(b"Content-Length: "):
                self.stray += head
                continue
            assert output.readline() == b"\r\n"
            self._heard.put(json.loads(output.read(int(head.split()[1]))))

    def send(self, command: str, arguments: Mapping[str, Any]) -> int:
        self.number += 1
        message = {"seq": self.number, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()
        return self.number

    def heard(self, seconds: float = SECONDS) -> Any:
        message = self._heard.get(timeout=seconds)
        assert message is not None, f"the adapter ended: {self.events}"
        return message

    def answer(self, number: int, seconds: float = SECONDS) -> Any:
        """Events before it are kept."""
        end = time.monotonic() + seconds
        while True:
            message = self.heard(max(0.1, end - time.monotonic()))
            if message["type"] == "response" and message["request_seq"] == number:
                return message
            self.events.append(message)

    def ask(self, command: str, arguments: Mapping[str, Any], seconds: float = SECONDS) -> Any:
        return self.answer(self.send(command, arguments), seconds)

    def wait_for(self, event: str) -> None:
        while not any(each.get("event") == event for each in self.events):
            self.events.append(self.heard())

    def begin(self, how: str, arguments: Mapping[str, Any]) -> Any:
        """launch or attach: its answer may come before configurationDone's or after it."""
        number = self.send(how, arguments)
        self.wait_for("initialized")
        self.ask("configurationDone", {})
        for each in self.events:
            if each["type"] == "response" and each["request_seq"] == number:
                return each
        return self.answer(number)

    def begin_typing(self, line: str, frame: Optional[int] = None) -> int:
        """A line of the debug console; its answer is yet to come."""
        del self.events[:]
        arguments = {**VS_CODE["evaluate"], "expression": line}
        return self.send("evaluate", arguments if frame is None else {**arguments, "frameId": frame})

    def typed(self, line: str, frame: Optional[int] = None) -> Any:
        return self.answer(self.begin_typing(line, frame))

    def output(self) -> str:
        return "".join(each["body"]["output"] for each in self.events if each.get("event") == "output")


pytestmark = pytest.mark.xdist_group("editors")
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
