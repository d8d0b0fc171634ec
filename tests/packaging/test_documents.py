"""README and docs: their links lead somewhere, and the commands in README work."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Iterator

import pytest
from looks import completed
from shell_door import arenascope
from subjects import Subject

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".", "docs", "docs/case-studies", "examples", "common/arenascope/present")
PAGES = [each for folder in FOLDERS for each in sorted((ROOT / folder).glob("*.md"))]


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


@pytest.mark.full
def test_the_commands_in_readme_work(tmp_path: Path) -> None:
    """In their order, as a newcomer types them; only the waits are shorter, and what asks is answered."""
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"(?:^|`)bin/arenascope ([^`\n#]+)", text, re.MULTILINE)
    assert len(lines) >= 5
    with Subject("workers", "10", "2") as subject:
        done = arenascope("types", subject.pid, "--json")
        block = next(row["samples"][0] for row in json.loads(done.stdout)["types"])
        named = {"PID": str(subject.pid), "CORE": str(subject.gcore()), "ADDRESS": block, "DIR": "/", "FOLDER": "/"}
        for line in lines:
            typed = re.sub(r"--interval \S+", "--interval 1 --count 2", line.partition(">")[0])
            typed = typed.replace("--apply", "--apply -y")
            done = arenascope(*(named.get(word, word) for word in typed.split()), cwd=tmp_path, status=None)
            # leaks has 1 where something is lost
            assert done.returncode == 0 or (typed.startswith("leaks") and done.returncode == 1), (line, done.stderr)
            assert done.stdout.strip(), line


@pytest.mark.full
def test_the_site_has_no_dead_link(tmp_path: Path) -> None:
    """As `make docs-site` makes it, elsewhere."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("MkDocs is not installed: make docs-site installs it")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = completed(*words, cwd=ROOT)
    assert re.fullmatch(r"\d+ pages, [\d,]+ links: .*\n", done.stdout)
    names = {f"{each.relative_to(tmp_path / 'site')}" for each in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "first-look.html", "case-studies/index.html", "SECURITY.html"} <= names
