"""A browser without a screen, for the pages that arenascope writes."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Optional

from looks import give_up

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 100

LEAVE = """
const leave = (id, value) => {
  const box = document.createElement("p");
  box.id = id;
  box.textContent = typeof value === "string" ? value : JSON.stringify(value);
  document.body.append(box);
};
"""
"""With which a script leaves what came of it, for `Dom.texts`."""


def executable() -> str:
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        give_up("no Chromium is installed: what its script makes of the page cannot be seen")
    return found


class Dom(HTMLParser):
    """What a test asks of a page as its script left it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.totals: dict[str, Optional[int]] = {}
        """By layer, of the cells that say their bytes."""
        self.problems: list[str] = []
        self.canvases = 0
        self.ready: Optional[str] = None
        self.texts: dict[str, str] = {}
        """By the id of their element."""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, Optional[str]]]) -> None:
        told = dict(attributes)
        if tag == "html":
            self.ready = told.get("data-ready")
        if "data-layer" in told:
            self.totals[told["data-layer"]] = None if told["data-bytes"] == "null" else int(told["data-bytes"])
        self.canvases += tag == "canvas"
        self._inside = "problem" if tag == "li" else told.get("id") or ""

    def handle_data(self, data: str) -> None:
        if self._inside == "problem" and data.strip():
            self.problems.append(data)
        elif self._inside:
            self.texts.setdefault(self._inside, data)


def opened(page: Path, folder: Path, script: str = "") -> Dom:
    """The page's DOM once it has stood for a while; with `script` run at its end, which may call `leave(id, value)`.

    Fails where its console complains.
    """
    if script:
        played = folder / f"played-{page.name}"
        played.write_text(page.read_text().replace("</body>", f"<script>{LEAVE}{script}</script></body>"))
        page = played
    command = [
        executable(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1280,800",
        "--enable-logging=stderr",
        "--virtual-time-budget=3000",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    complaints = re.findall(r".*CONSOLE.*", done.stderr)
    assert not complaints, complaints
    assert done.returncode == 0, done.stderr
    return Dom(done.stdout)
