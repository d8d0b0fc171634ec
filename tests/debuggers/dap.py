"""A client of the Debug Adapter Protocol, as an editor is one: messages with a Content-Length, over standard input and
output."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from typing import Any, Mapping, Optional, Sequence

from lifetimes import dies_with_us
from looks import HERE, plain_environment

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
        assert self.process.stderr is not None
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
        assert self.process.stdin is not None
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
