"""A browser that stays: one page after another, at any width, by day and at night, asked by the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any, Optional

from browser import SECONDS, executable


class Tab:
    """`with Tab(folder) as tab`: Chromium without a screen, spoken to through two pipes."""

    complaints: list[str]
    """What the console of the page said, and what its script threw."""

    def __init__(self, folder: Path) -> None:
        self.complaints = []
        self._number = 0
        self._rest = b""
        theirs, self._to = os.pipe()
        self._from, ours = os.pipe()
        # it reads from 3 and writes to 4
        script = f'exec "$0" "$@" 3<&{theirs} 4>&{ours}'
        words = [executable(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        words += ["--remote-debugging-pipe", f"--user-data-dir={folder / 'tab'}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, *words],
            pass_fds=(theirs, ours),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(ours)
        self._session: Optional[str] = None

    def __enter__(self) -> Tab:
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._to)
        os.close(self._from)
        self._process.terminate()
        self._process.wait(SECONDS)

    def show(self, page: Path, wide: int, high: int, scheme: str) -> None:
        """The page, once its script has said that it is ready. `scheme`: "light" or "dark"."""
        self._ask("Emulation.setDeviceMetricsOverride", width=wide, height=high, deviceScaleFactor=1, mobile=False)
        self._ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.complaints.clear()
        self._ask("Page.navigate", url=page.as_uri())
        limit = time.monotonic() + SECONDS
        while not self.run("document.documentElement?.dataset.ready"):
            assert time.monotonic() < limit, f"{page.name} is not ready: {self.complaints}"
            time.sleep(0.02)
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """What the expression comes to, as JSON has it; a promise is awaited."""
        said = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def photograph(self, file: Path, whole: bool = False) -> None:
        said = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(said["data"]))

    def _ask(self, method: str, **values: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": values}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, f"{method}: {said['error']}"
                result: dict[str, Any] = said["result"]
                return result
            self._note(said)

    def _note(self, said: dict[str, Any]) -> None:
        values = said.get("params", {})
        if said.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(values["exceptionDetails"]))
        elif said.get("method") == "Runtime.consoleAPICalled":
            self.complaints.append(str(values["args"]))
        elif said.get("method") == "Log.entryAdded":
            self.complaints.append(values["entry"]["text"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], SECONDS)
            assert ready, "the browser does not answer"
            piece = os.read(self._from, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        return said
