"""README and docs: what they lead to is there, README fits a screen, and no page and no command is forgotten."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path
from typing import Iterator

import pytest
from platforms import needs_a_checkout
from subjects import Subject

from arenascope.cli.command_line import LOOPS
from arenascope.commands.all_commands import all_commands

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    each for folder in (".", "docs", "docs/case-studies", "examples") for each in sorted((ROOT / folder).glob("*.md"))
]
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
LINES = 66
"""Of README, its picture not counted: a screen of an editor."""


def prose(page: Path) -> str:
    """Without what stands there as it is typed."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@cache
def places(page: Path) -> set[str]:
    """What GitHub and its like call the headings of a page; a second of the same name gets a number."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")
        found.append(f"{name}-{found.count(name)}" if name in found else name)
    return set(found)


def links(page: Path) -> Iterator[str]:
    yield from re.findall(r"\]\(([^)\s]+)\)", prose(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, place = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (place and place not in places(target)):
            dead.append(link)
    assert dead == []


def test_what_is_looked_through_has_links() -> None:
    """README leads to each kind of thing that a link can lead to; the pages of the site are all of docs."""
    told = list(links(ROOT / "README.md"))
    assert {"docs/install.md", "docs/pictures/report.svg", "LICENSE"} <= set(told)
    assert any("#" in each for each in told)
    files = {f"{each.relative_to(ROOT / 'docs')}" for each in (ROOT / "docs").rglob("*.md")}
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = set(re.findall(r"[\w/-]+\.md", nav))
    assert named == files | {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"}


def test_each_page_leads_to_its_words() -> None:
    """Whoever has never seen malloc's inside finds what the words mean, on whatever page the reading began."""
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name not in ("glossary.md", "support-matrix.md"):
            assert re.search(r"\]\((\.\./)?(glossary|first-look)\.md", page.read_text()), page


def test_readme_is_one_screen() -> None:
    """What it is, a picture of the answer, how to load it, the questions with their commands, and how to try it."""
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") <= LINES
    assert text.index("](docs/pictures/report.svg)") < text.index("\n## ")
    assert re.findall(r"^make ([a-z-]+) ", text, re.MULTILINE) == ["demo", "test", "test-all"]
    for door in ("source gdb/arena.py", "command script import lldb/arena.py", "bin/arenascope PID"):
        assert door in text
    questions = re.findall(r"^\| .*\? \| (.*) \| .* \|$", text, re.MULTILINE)
    assert len(questions) >= 8
    known = {each.name for each in all_commands()} | {*LOOPS}
    for asked in questions:
        commands = re.findall(r"`(?:heap|bin/arenascope) ([a-z]+)", asked)
        assert commands, asked
        assert set(commands) <= known, asked


def test_each_command_is_told_of() -> None:
    text = (ROOT / "docs" / "which-command.md").read_text()
    for name in (*(each.name for each in all_commands()), *LOOPS):
        assert re.search(rf"`(heap|arenascope)\s{name}\b", text), f"{name}: a row of which-command.md"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_pictures_show_everywhere(picture: Path) -> None:
    """A forge and a browser show them as they are: no script, nothing from elsewhere, and a page that has each."""
    tree = ElementTree.parse(picture)
    tags = {each.tag.rpartition("}")[2] for each in tree.iter()}
    assert tags <= {"svg", "title", "style", "rect", "text", "tspan"}
    assert "url(" not in picture.read_text()
    assert "@import" not in picture.read_text()
    shown = "\n".join("".join(each.itertext()) for each in tree.iter("{http://www.w3.org/2000/svg}text"))
    assert re.match(r"\$ bin/arenascope [a-z]+ \d+", shown)
    assert any(f"pictures/{picture.name})" in page.read_text() for page in PAGES)


def test_nothing_that_is_built_is_kept() -> None:
    """The site is made anew; git keeps its sources."""
    site = re.findall(r"^site_dir: (.*)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert site == ["build/site"]
    needs_a_checkout(ROOT)
    done = subprocess.run(["git", "check-ignore", "-q", f"{site[0]}/index.html"], cwd=ROOT)
    assert done.returncode == 0


@pytest.mark.full
def test_questions_are_asked_as_printed(tmp_path: Path) -> None:
    """Every command of README's table, in the shell, on a program that has freed most of what it had."""
    text = (ROOT / "README.md").read_text()
    asked = [
        each for row in re.findall(r"^\| .*\? \| (.*) \| .* \|$", text, re.M) for each in re.findall(r"`([^`]+)`", row)
    ]
    lines = [each.replace("heap", "bin/arenascope", 1) for each in asked if each.startswith(("heap ", "bin/"))]
    assert len(lines) > 12
    with Subject("workers", "10", "2") as subject:

        def ask(line: str) -> str:
            words = [
                {"PID": str(subject.pid), "FOLDER": str(tmp_path), "FILE": str(tmp_path / "page.html")}.get(each, each)
                for each in line.split()
            ]
            if not {"PID", "FOLDER"} & {*line.split()}:
                words.insert(2, str(subject.pid))
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
            # leaks has 1 where something is lost
            assert done.returncode == 0 or (words[1] == "leaks" and done.returncode == 1), (line, done.stderr)
            assert done.stdout.strip(), line
            return done.stdout

        example = next(row["samples"][0] for row in json.loads(ask("bin/arenascope types --json"))["types"])
        for line in lines:
            line = line.replace("ADDRESS", example).replace("watch PID", "watch PID --interval 1 --count 1")
            ask(line.replace("--apply", "--apply -y"))


@pytest.mark.full
def test_first_steps_are_obeyed_as_printed(tmp_path: Path) -> None:
    """In their order, as a newcomer types them; only the waits are shorter, and what asks is answered."""
    section = (ROOT / "README.md").read_text().partition("## First steps\n")[2].partition("\n## ")[0]
    lines = re.findall(r"`(bin/arenascope [^`]+)`", section)
    assert len(lines) > 9
    with Subject("workers", "10", "2") as subject:
        named = {"PID": str(subject.pid), "CORE": str(subject.gcore()), "DIR": "/", ">report.json": ""}
        for line in lines:
            typed = line.replace("--interval 30", "--interval 1 --count 2").replace("--apply", "--apply -y").split()
            words = [word for word in (named.get(each, each) for each in typed) if word]
            done = subprocess.run(
                [str(ROOT / words[0]), *words[1:]],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 0, (line, done.stderr)
            assert done.stdout.strip(), line


@pytest.mark.full
def test_the_site_has_no_dead_link(tmp_path: Path) -> None:
    """As `make docs-site` makes it, elsewhere."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("MkDocs is not installed: make docs-site installs it")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"\d+ pages, [\d,]+ links: .*\n", done.stdout)
    names = {f"{each.relative_to(tmp_path / 'site')}" for each in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "first-look.html", "case-studies/index.html", "SECURITY.html"} <= names
