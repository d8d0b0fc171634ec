"""Each page in a real browser: as wide as a phone, a laptop and a desk, by day and at night; what everybody can use."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator, Optional

import pytest
from browser import SECONDS, executable
from looks import ROOT, give_up
from shell_door import arenascope
from subjects import Subject


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


pytestmark = [pytest.mark.full, pytest.mark.xdist_group("pages")]
AXE = ROOT / "build" / "axe" / "axe.min.js"
WIDE = ((390, 844), (1280, 900), (1920, 1080))
SCHEMES = ("light", "dark")
PAGES = ("report", "owners", "map", "trend", "threads", "fleet")
CHECKED = """axe.run().then((said) => said.violations.filter((each) => ["serious", "critical"].includes(each.impact))
  .map((each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))]))"""
UNNAMED = """[...document.querySelectorAll("input, select, button")].map((each) => [each.outerHTML,
  each.labels?.length || each.textContent.trim() || each.getAttribute("aria-label")]).filter(([, named]) => !named)"""
SCOPELESS = """[...document.querySelectorAll("th:not([scope])")].map((each) => each.outerHTML)"""
ANSWERS = {
    "where": "#split .key li:last-child",
    "why": "#why li",
    "what to do": "#todo li .way",
    "what the blocks are": "#blocks tbody tr",
    "whose": "#whose tbody tr",
}
"""What the first screen of the report has, and where."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {name: folder / f"{name}.html" for name in PAGES}
    with Subject("quotes") as subject:
        written("report", subject.pid, made["report"])
        written("owners", subject.pid, made["owners"])
        written("map", subject.pid, made["map"], "--types")
    with Subject("workers") as subject, Subject("hoard") as other:
        arenascope("fleet", subject.pid, other.pid, "--via", "env", "--html", made["fleet"])
        written("report", subject.pid, made["threads"])
    with Subject("busy") as subject:
        for _ in range(3):
            arenascope("watch", subject.pid, "--interval", 0.2, "--count", 1, "--save", folder / "moments", "--owners")
            subject.send("tick")
    written("trend", folder / "moments", made["trend"], "--until", "32M")
    return made


def written(name: str, about: object, page: Path, *words: str) -> None:
    arenascope(name, about, *words, "--html", page)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with Tab(tmp_path_factory.mktemp("tab")) as found:
        yield found


@pytest.mark.parametrize("name", PAGES)
def test_at_each_width_by_day_and_at_night(name: str, pages: dict[str, Path], tab: Tab) -> None:
    for wide, high in WIDE:
        for scheme in SCHEMES:
            tab.show(pages[name], wide, high, scheme)
            where = f"{wide} {scheme}"
            assert tab.complaints == [], where
            assert tab.run("document.getElementById('problems').textContent") == "", where
            assert tab.run("document.documentElement.scrollWidth") <= wide, where
            assert tab.run(UNNAMED) == []
            assert tab.run(SCOPELESS) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_checker_finds_nothing_serious(name: str, pages: dict[str, Path], tab: Tab) -> None:
    if not AXE.exists():
        give_up("axe-core is not installed: scripts/setup.sh all has it by npm")
    for wide, high in WIDE:
        for scheme in SCHEMES:
            tab.show(pages[name], wide, high, scheme)
            tab.run(f"{AXE.read_text()};0")
            assert tab.run(CHECKED) == [], (wide, scheme)


@pytest.mark.parametrize("name", ["report", "threads"])
def test_the_first_screen_of_the_report_answers(name: str, pages: dict[str, Path], tab: Tab) -> None:
    tab.show(pages[name], 1280, 900, "light")
    for answer, place in ANSWERS.items():
        assert 0 < tab.run(f"document.querySelector({json.dumps(place)}).getBoundingClientRect().bottom") < 900, answer
    # nothing is in use there that is worth a word
    assert bool(tab.run("$('holder').textContent")) is (name == "report")
