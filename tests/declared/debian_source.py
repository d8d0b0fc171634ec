"""Programs from their distribution's source: upstream's archive, as apt has it."""

from __future__ import annotations

import functools
import os
import re
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Callable, Iterable, Sequence

import pytest
from looks import completed, needs

APT = Path("/etc/apt")


def lists_of_sources(folder: Path) -> None:
    """Writes apt's own lists there, with sources in place of packages: few machines ask for both."""
    for each in [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*"))]:
        if each.is_file() and each.suffix in (".list", ".sources"):
            text = re.sub(r"^deb (?=.*debian)", "deb-src ", each.read_text(), flags=re.MULTILINE)
            text = re.sub(r"^Types: deb$(?=(\n.+)*debian)", "Types: deb-src", text, flags=re.MULTILINE)
            if "deb-src" in text:
                (folder / each.name).write_text(text)


def downloaded(package: str, to: Path) -> Path:
    """In a folder of its own there."""
    folder = Path(tempfile.mkdtemp(dir=to))
    lists_of_sources(folder)
    (folder / "lists" / "partial").mkdir(parents=True)
    asked = functools.partial(completed, status=None, cwd=folder)
    places = ("Etc::SourceList=/dev/null", f"Etc::SourceParts={folder}", f"State::Lists={folder}/lists")
    options = [f"-oDir::{place}" for place in places]
    done = asked("apt-get", *options, "-qq", "update")
    told = asked("apt-cache", *options, "showsrc", package).stdout
    # not every mirror has the newest one of what it lists
    for version in ["", *(f"={each}" for each in re.findall(r"^Version: (\S+)$", told, re.MULTILINE))]:
        done = asked("apt-get", *options, "-qq", "source", "--download-only", f"{package}{version}")
        if not done.returncode:
            break
    found = sorted(each for each in folder.glob(f"{package}_*.orig.tar.*") if each.suffix != ".asc")
    if done.returncode or not found:
        reason = next((line for line in done.stderr.splitlines() if line.startswith("E:")), "no archive came")
        shutil.rmtree(folder)
        pytest.skip(f"apt has no source of {package} here: {reason}")
    return found[0]


def unpack(archive: Path, to: Path) -> None:
    with tarfile.open(archive) as file:
        file.extractall(archive.parent)
    next(each for each in archive.parent.iterdir() if each.is_dir() and each.name != "lists").rename(to)
    shutil.rmtree(archive.parent)


Build = Callable[[Path, Path], Iterable[Sequence[object]]]
"""The commands that make a program of an unpacked source."""


def built(package: str, program: Path, build: Build) -> Path:
    """Built once: it stays where fixtures are built, with its source, which debug information names."""
    if program.exists():
        return program
    needs("apt-get", "make", "gcc", "g++")
    program.parent.mkdir(parents=True, exist_ok=True)
    source, new = program.with_name("source"), program.with_name("new")
    shutil.rmtree(source, ignore_errors=True)
    unpack(downloaded(package, program.parent), source)
    for words in build(source, new):
        completed(*words, cwd=source, timeout=None)
    # whole or not at all
    os.replace(new, program)
    return program
