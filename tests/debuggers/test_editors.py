"""Debug consoles of editors: the commands through lldb-dap, as VS Code sends them."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping

import pytest
from lifetimes import dies_with_us
from lldb_door import LLDB_ARENA_PY, NEWEST_LLDB
from looks import HERE, needs, plain_environment
from marks import full_after
from shell_door import ask
from subjects import Subject

VS_CODE: Mapping[str, Any] = json.loads((HERE / "vscode_dap.json").read_text())
"""What VS Code says of itself, and the form in which it sends a line of its debug console."""
pytestmark = pytest.mark.xdist_group("editors")
ECHO = "(lldb) "
"""Before LLDB 20 its adapter repeats what was typed."""
ABOUT_THE_LOOK = ("door", "held_seconds")
VERSIONS = sorted({19, NEWEST_LLDB.version})


class Dap:
    """An adapter, from its first message on."""

    def __init__(self, name: str) -> None:
        self.process = subprocess.Popen(
            [name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=plain_environment(),
            preexec_fn=dies_with_us(),
        )
        self.number = 0
        self.heard: list[Any] = []
        """Since the last line was typed: all but what was asked for."""
        self.ask("initialize", VS_CODE["initialize"])

    def send(self, command: str, arguments: Mapping[str, Any]) -> int:
        self.number += 1
        message = {"seq": self.number, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()
        return self.number

    def wait_for(self, **wanted: object) -> Any:
        """A message that says this. Nothing stands on standard output between messages."""
        while True:
            for each in self.heard:
                if wanted.items() <= each.items():
                    return each
            head = self.process.stdout.readline()
            assert head.startswith(b"Content-Length: "), head
            assert self.process.stdout.readline() == b"\r\n"
            self.heard.append(json.loads(self.process.stdout.read(int(head.split()[1]))))

    def ask(self, command: str, arguments: Mapping[str, Any]) -> Any:
        return self.wait_for(type="response", request_seq=self.send(command, arguments))

    def typed(self, line: str, frame: int) -> Any:
        """The answer to a line of the debug console."""
        self.heard.clear()
        return self.ask("evaluate", {**VS_CODE["evaluate"], "expression": line, "frameId": frame})


@contextmanager
def lldb_dap(version: int) -> Iterator[Dap]:
    name = f"lldb-dap-{version}"
    needs(name)
    dap = Dap(name)
    try:
        yield dap
        assert dap.process.poll() is None
    finally:
        dap.process.kill()
        dap.process.wait()


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with Subject("hoard", "2", "12") as subject:
        yield subject


@pytest.fixture(scope="module")
def core(subject: Subject) -> Path:
    return subject.gcore()


def figures(document: dict[str, Any]) -> dict[str, Any]:
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


@pytest.mark.parametrize("version", full_after(1, VERSIONS))
def test_lldb_dap_on_a_core(version: int, subject: Subject, core: Path) -> None:
    """The answers are the shell's, and nothing else comes over the line."""
    with lldb_dap(version) as dap:
        load = {"initCommands": [f"command script import {LLDB_ARENA_PY}"]}
        # its answer may come before configurationDone's or after it
        number = dap.send("attach", {"program": str(subject.program), "coreFile": str(core), **load})
        dap.wait_for(event="initialized")
        dap.ask("configurationDone", {})
        assert dap.wait_for(type="response", request_seq=number)["success"]
        output = "".join(each["body"]["output"] for each in dap.heard if each.get("event") == "output")
        assert "rror" not in output
        dap.wait_for(event="stopped")
        thread = dap.ask("threads", {})["body"]["threads"][0]["id"]
        frame = dap.ask("stackTrace", {"threadId": thread})["body"]["stackFrames"][0]["id"]

        def typed(line: str) -> str:
            return said(dap.typed(f"`{line}", frame))

        assert figures(json.loads(typed("heap arenas --json"))) == figures(ask(core, "arenas"))
        assert figures(json.loads(typed("heap bins --json"))) == figures(ask(core, "bins"))
        # nobody cuts columns or breaks rows where there is no terminal
        rows = typed("heap arenas --table tsv").splitlines()
        assert len({row.count("\t") for row in rows if "\t" in row}) == 1
        assert sum(row.count("\t") > 8 for row in rows) >= 5
        verdict = ask(core, "report")["verdict"]
        report = typed("heap report")
        assert verdict.split(",")[0].split(": ")[1] in " ".join(report.split())
        assert "next: " in report
        assert "arena 77" in typed("heap bins --arena 77")
        assert typed("heap trim --apply").strip()
        assert typed("heap version").startswith("arenascope ")
        assert "invalid command" in typed("heap arenaz") or version > 19
