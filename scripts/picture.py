"""A screen as a picture: what a terminal was sent, as an SVG that needs no font and no script of its own; and a page.

Every line is one `text` element of a given length, so that columns stand below each other in whatever font there is.
A page is what Chromium, without a screen, makes of it.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios
from pathlib import Path
from typing import Iterator, Sequence

COLUMNS = 100
_WIDE, _HIGH, _EDGE = 8.4, 19, 18
"""A character's place, and the empty edge."""
_COLOURS = {
    "31": "#ff7b72",
    "32": "#3fb950",
    "33": "#e3b341",
    "34": "#58a6ff",
    "35": "#d2a8ff",
    "36": "#56d4dd",
    "90": "#6e7681",
    "91": "#ffa198",
}
"""Of those that screens have."""
_CLASSES = {"1": "b", "2": "d", **{code: f"c{code}" for code in _COLOURS}}
_STYLE = (
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    "fill:#c9d1d9;white-space:pre}.b{font-weight:700;fill:#fff}.d{fill:#8b949e}"
    + "".join(f".c{code}{{fill:{its}}}" for code, its in _COLOURS.items())
)
_PIECE = re.compile(r"\033\[([0-9;]*)m")
_LINE = re.compile(r"<text [^>]*>(.*)</text>")


def on_a_terminal(words: Sequence[str], folder: Path) -> str:
    """What the command writes to a terminal, colours included."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    process = subprocess.Popen(words, stdin=its, stdout=its, stderr=its, env=environment, cwd=folder)
    os.close(its)
    written = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how a terminal that nobody has open ends
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    if process.wait():
        raise SystemExit(f"{' '.join(words)}: {plain(written.decode())}")
    # a line that was written over, as progress is, shows its last state
    lines = written.decode().replace("\r\n", "\n").split("\n")
    return "\n".join(re.sub(r"\033\[K", "", line).rpartition("\r")[2] for line in lines).rstrip("\n") + "\n"


def photographed(page: Path, file: Path) -> bool:
    """The head of a page, as a PNG. Says whether there is a browser to do that."""
    chromium = next(
        (path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None
    )
    if chromium is None:
        return False
    with tempfile.TemporaryDirectory() as profile:
        words = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,760"]
        words += [f"--user-data-dir={profile}", "--virtual-time-budget=3000", f"--screenshot={file}", page.as_uri()]
        subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    return True


def plain(text: str) -> str:
    return _PIECE.sub("", text)


def svg(screen: str, title: str) -> str:
    lines = screen.splitlines()
    wide = round(2 * _EDGE + _WIDE * max(COLUMNS, *(len(plain(line)) for line in lines)))
    high = 2 * _EDGE + _HIGH * len(lines)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" role="img">\n'
        f"<title>{html.escape(title, quote=False)}</title>\n<style>{_STYLE}</style>\n"
        f'<rect width="{wide}" height="{high}" rx="8" fill="#0d1117"/>\n'
    )
    return head + "".join(_drawn(lines)) + "</svg>\n"


def _drawn(lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        length = len(plain(line).rstrip())
        pieces = _PIECE.split(line.rstrip())
        spans = [html.escape(pieces[0], quote=False)]
        for code, text in zip(pieces[1::2], pieces[2::2]):
            its = _CLASSES.get(code)
            text = html.escape(text, quote=False)
            spans.append(f'<tspan class="{its}">{text}</tspan>' if its and text else text)
        place = f'x="{_EDGE}" y="{_EDGE + 14 + _HIGH * number}"'
        if length:
            place += f' textLength="{round(_WIDE * length, 1)}"'
        yield f'<text {place} xml:space="preserve">{"".join(spans)}</text>\n'


def words_of(picture: str) -> str:
    """The text that a picture shows."""
    return "".join(f"{html.unescape(re.sub('<[^>]*>', '', line))}\n" for line in _LINE.findall(picture))
