"""Writes the tool's real output into README and docs: every block and every picture behind a marker is made again.

    <!-- run: MALLOC_TRIM_THRESHOLD_=131072 workers 30 8 | heap trim -->

starts the fixture (environment, name, arguments), attaches GDB and runs the commands, which ` ; ` separates; markers in
a row with the same subject share one process. `@{Order}` in a command is the last address on the first line of what was
printed before that begins with `Order`.

    <!-- picture: workers 30 8 | report -->
    ![what it shows](docs/pictures/report.svg)

is what the shell's door writes to a terminal, colours included, as that SVG; with `page` for `picture` it is the page
that `--html` writes, as a PNG, where Chromium is installed. `--check` says which blocks and screens no longer have the
shape of what is run, numbers and addresses aside. Pages that are named are the only ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import picture

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"<!-- run: (?P<subject>[^|\n]+?) \| (?P<commands>[^\n]+?) -->\n```text\n(?P<text>.*?)```\n", re.DOTALL
)
PICTURE = re.compile(
    r"<!-- (?P<kind>picture|page): (?P<subject>[^|\n]+?) \| (?P<command>[^\n]+?) -->\n"
    r"!\[(?P<title>[^\]\n]*)\]\((?P<file>[^)\n]+)\)\n"
)
EXAMPLE = re.compile(r"@\{([^}]+)\}")
FENCE = "== arenascope =="


@contextmanager
def running(subject: str, folder: str) -> Iterator[int]:
    """A fresh process of the subject, once its heap stands."""
    words = subject.split()
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    name, *arguments = [word for word in words if "=" not in word]
    if not name.startswith(("declared/", "faults/")):  # those write no files
        arguments.insert(0, folder)
    process = subprocess.Popen(
        [*_fixed(), str(ROOT / "fixtures" / "build" / name), *arguments],
        env={**os.environ, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready.startswith(("ready", "{")):
            raise SystemExit(f"{subject}: not ready: {ready!r}")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def run(subject: str, commands: list[str]) -> str:
    """What GDB prints for the commands on a fresh process of the subject."""
    with tempfile.TemporaryDirectory() as folder, running(subject, folder) as pid:
        for number, command in enumerate(commands):
            for begin in EXAMPLE.findall(command):
                address = _example(_gdb(pid, commands[:number], folder), begin)
                commands[number] = commands[number].replace(f"@{{{begin}}}", address)
        return _gdb(pid, commands, folder)


def _example(screens: str, begin: str) -> str:
    line = next((line for line in screens.splitlines() if line.startswith(begin)), "")
    addresses = re.findall(r"\b0x[0-9a-f]+", line)
    if not addresses:
        raise SystemExit(f"no address on a line that begins with {begin!r}:\n{screens}")
    return addresses[-1]


def screen(subject: str, command: str) -> str:
    """What the shell's door writes to a terminal about a fresh process of the subject, and what was typed for it."""
    name, *options = command.split()
    with tempfile.TemporaryDirectory() as folder, running(subject, folder) as pid:
        words = ["bin/arenascope", name, str(pid), *options]
        return f"\033[2m$\033[0m {' '.join(words)}\n" + picture.on_a_terminal(words, ROOT)


def photograph(subject: str, command: str, file: Path) -> bool:
    """The page that the shell's door writes about a fresh process of the subject."""
    with tempfile.TemporaryDirectory() as folder, running(subject, folder) as pid:
        page = Path(folder) / "page.html"
        name, *options = command.split()
        words = ["bin/arenascope", name, str(pid), *options, "--html", str(page)]
        subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
        return picture.photographed(page, file)


def _fixed() -> list[str]:
    """The same addresses each time, where that may be asked for: how much fits below a boundary depends on them."""
    fixed = ["setarch", "-R"]
    try:
        return fixed if subprocess.run([*fixed, "true"], capture_output=True, check=False).returncode == 0 else []
    except FileNotFoundError:
        return []


class CannotCall(Exception):
    """This GDB refuses to call a function in a process here."""


def _gdb(pid: int, commands: list[str], folder: str) -> str:
    """In that folder, where `heap snapshot FILE` leaves its file."""
    steps: list[str] = []
    for command in commands:
        steps += ["-ex", f"echo {FENCE}\\n", "-ex", command]
    done = subprocess.run(
        [
            "gdb",
            "-nx",
            "-q",
            "-batch",
            "-iex",
            "set debuginfod enabled off",
            "-iex",
            "set print thread-events off",
            "-p",
            str(pid),
            "-ex",
            f"source {ROOT / 'gdb' / 'arena.py'}",
            *steps,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if any("trim --apply" in each for each in commands) and "registers" in done.stderr:
        raise CannotCall(done.stderr.strip())
    parts = done.stdout.split(FENCE + "\n")[1:]
    if len(parts) != len(commands):
        raise SystemExit(f"gdb: {done.stderr.strip()}")
    parts[-1] = re.sub(r"\[Inferior \d+ \(process \d+\) detached\]\n", "", parts[-1])
    return "\n".join(f"(gdb) {command}\n{part.rstrip()}\n" for command, part in zip(commands, parts))


def shape(text: str) -> list[str]:
    """What must not change: the words. Sizes, counts, pids and addresses do, rows come in another order, and prose is
    wrapped elsewhere."""
    lines = []
    for paragraph in re.split(r"\n[ ]*\n", text):
        is_table = "----" in paragraph
        lines += paragraph.splitlines() if is_table else [" ".join(paragraph.splitlines())]
    # what is busy takes seconds, and says that of a long hold, too
    lines = [re.sub(r"; each further look of this kind takes about as long", "", line) for line in lines]
    lines = [re.sub(r"0x[0-9a-f]+|[0-9][0-9,.]*( ([KMGT]?i?B|[mµ]?s)\b)?", "#", line) for line in lines]
    return sorted({re.sub(r"[\s-]+", " ", line).strip() for line in lines})


def main() -> int:
    check = "--check" in sys.argv[1:]
    if any(each.startswith("-") and each != "--check" for each in sys.argv[1:]):
        print(
            "usage: stories.py [--check] [PAGE.md ...]: renews their screens, or names those that differ",
            file=sys.stderr,
        )
        return 2
    stale = []
    for page in [Path(each).resolve() for each in sys.argv[1:] if each[0] != "-"] or PAGES:
        text = page.read_text()

        def renewed(match: re.Match[str], page: Path = page) -> str:
            try:
                output = run(match["subject"], match["commands"].split(" ; "))
            except CannotCall as error:
                print(f"{page.name}: {match['commands']}: as it was: {error}", file=sys.stderr)
                return match[0]
            if check and shape(output) != shape(match["text"]):
                stale.append(f"{page.name}: {match['subject']} | {match['commands']}")
            return f"<!-- run: {match['subject']} | {match['commands']} -->\n```text\n{output}```\n"

        def drawn(match: re.Match[str], page: Path = page) -> str:
            file = page.parent / match["file"]
            name = file.relative_to(ROOT)
            if match["kind"] == "page":
                if not check:
                    made = photograph(match["subject"], match["command"], file)
                    print(f"{name}: {'written' if made else 'as it was: no Chromium is installed'}")
                return match[0]
            shown = screen(match["subject"], match["command"])
            before = file.read_text() if file.exists() else ""
            if not check:
                file.parent.mkdir(exist_ok=True)
                file.write_text(picture.svg(shown, match["title"]))
                print(f"{name}: written")
            elif shape(picture.plain(shown)) != shape(picture.words_of(before)):
                stale.append(f"{file.name}: {match['subject']} | {match['command']}")
            return match[0]

        new = PICTURE.sub(drawn, BLOCK.sub(renewed, text))
        if not check and new != text:
            page.write_text(new)
            print(f"{page.relative_to(ROOT)}: written")
    for each in stale:
        print(f"stale: {each} (make stories renews it)", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
