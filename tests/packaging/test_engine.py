"""Which engine is loaded: the one that was built, of the right interface; none that another user could have written."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator, Optional

import pytest
from looks import ROOT, completed, plain_environment
from platforms import needs_a_checkout
from schemas import valid
from subjects import Subject

from arenascope.engine import BUILT, INTERFACE, NAME, in_archive

BARE = (sys.executable, "-I", "-S")
ANOTHER = 12345
LIBRARY = ROOT / BUILT
FAKE = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) { close(open("%s", O_CREAT | O_WRONLY, 0600)); }
unsigned arenascope_interface(void) { return %d; }
"""
"""A library that leaves a mark where it is loaded."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of other users are made (not root)")


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with Subject("bins") as subject:
        yield subject


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without an engine."""
    for name in ("bin", "common", "gdb", "lldb"):
        shutil.copytree(ROOT / name, tmp_path / "root" / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "root"


def installed(root: Path) -> Path:
    """Moves its package to where `pip install --target` unpacks it; returns the folder to import it from."""
    (root / "lib").mkdir()
    (root / "common" / "arenascope").rename(root / "lib" / "arenascope")
    return root / "lib"


def made(target: Path, interface: int = INTERFACE) -> Path:
    """Compiles a fake engine; returns the mark that it leaves when it is loaded."""
    target.parent.mkdir(parents=True, exist_ok=True)
    mark = target.parent.parent / "mark"
    source = FAKE % (mark, interface)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", target], input=source, text=True, check=True, timeout=60
    )
    return mark


def run(*words: object, status: int = 0, **environment: str) -> str:
    return completed(*words, status=status, cwd="/", env=plain_environment(environment)).stdout


def version(launcher: Path, pid: int) -> dict[str, object]:
    """What `version` says of the engine, in JSON; its screen has the same."""
    found = valid(json.loads(run(*BARE, launcher, "version", pid, "--json")))["engine"]
    said = found["problem"] or f"interface {found['interface']} ({found['path']})"
    assert f"engine: {said}" in run(*BARE, launcher, "version", pid).splitlines()
    return found


def needs_the_engine() -> None:
    if not LIBRARY.is_file():
        pytest.skip("the engine is not built: make engine")


@pytest.mark.parametrize("command", ["types", "leaks", "owners", "containers", "waste", "pins", "refs 0x1234"])
def test_without_an_engine_one_line_says_what_builds_it(subject: Subject, command: str) -> None:
    name, *further = command.split()
    words = (ROOT / "bin" / "arenascope", name, subject.pid, *further, "--json")
    failed = valid(json.loads(run(*words, status=2, ARENASCOPE_ENGINE="none")))
    (record,) = failed["problem_records"]
    assert record["id"] == "no-engine"
    assert f"(make -C {shlex.quote(str(ROOT))} engine)" in failed["error"]
    assert "\n" not in failed["error"]


def test_the_engine_of_a_checkout(subject: Subject, root: Path) -> None:
    needs_the_engine()
    assert "not built" in str(version(root / "bin" / "arenascope", subject.pid)["problem"])
    (root / BUILT).parent.mkdir(parents=True)
    shutil.copy(LIBRARY, root / BUILT)
    found = version(root / "bin" / "arenascope", subject.pid)
    assert found == {"interface": INTERFACE, "path": str(root / BUILT), "problem": None}


def test_another_interface(subject: Subject, root: Path) -> None:
    made(root / BUILT, INTERFACE + 1)
    said = str(version(root / "bin" / "arenascope", subject.pid)["problem"])
    assert f"its interface is {INTERFACE + 1}, and {INTERFACE} is needed" in said
    run(*BARE, root / "bin" / "arenascope", "types", subject.pid, status=2)


@pytest.mark.parametrize("content", [b"", b"no library\n", "half"], ids=["empty", "text", "half of one"])
def test_a_file_that_is_no_library(subject: Subject, root: Path, content: object) -> None:
    """One that ends too soon, as where the disk was full: mapped, it could end the debugger by SIGBUS."""
    made(root / BUILT)
    whole = (root / BUILT).read_bytes()
    (root / BUILT).write_bytes(content if isinstance(content, bytes) else whole[: len(whole) // 2])
    assert "cannot be loaded" in str(version(root / "bin" / "arenascope", subject.pid)["problem"])


PLACES = ("engine", "engine/target", "engine/target/release", BUILT)


@needs_root
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["another's", "all may write"])
def test_what_another_user_could_have_written_is_not_loaded(subject: Subject, root: Path, place: str, how: str) -> None:
    mark = made(root / BUILT)
    if how == "another's":
        os.chown(root / place, ANOTHER, ANOTHER)
    else:
        (root / place).chmod(0o777)
    found = version(root / "bin" / "arenascope", subject.pid)
    assert found["path"] is None
    assert "another user could have written" in str(found["problem"])
    assert not mark.exists()


@needs_root
@pytest.mark.parametrize("owner", [None, ANOTHER], ids=["ours", "another's"])
def test_beside_an_installed_package(subject: Subject, root: Path, owner: Optional[int]) -> None:
    """In a folder to which all may add files, one that another user has put there is not loaded."""
    lib = installed(root)
    (lib / "arenascope").chmod(0o1777)
    mark = made(lib / "arenascope" / NAME)
    if owner is not None:
        os.chown(lib / "arenascope" / NAME, owner, owner)
    start = f"import sys; sys.path.insert(0, {str(lib)!r}); from arenascope.__main__ import run; run()"
    said = run(*BARE, "-c", start, "version", subject.pid)
    assert mark.exists() is (owner is None), said
    assert ("another user could have written" in said) is (owner is not None)


@pytest.mark.parametrize("place", [NAME, BUILT, "lib", f"arenascope/{NAME}"])
def test_nowhere_else(subject: Subject, root: Path, place: str) -> None:
    """Not where the loader looks, nor near an installed package, nor in a checkout's package."""
    lib = root / "common"
    if place in (NAME, BUILT, "lib"):
        lib = installed(root)
    mark = made(lib / place / NAME if place == "lib" else lib / place)
    start = f"import sys; sys.path.insert(0, {str(lib)!r}); from arenascope.__main__ import run; run()"
    folder = str((lib / place).parent)
    said = run(*BARE, "-c", start, "version", subject.pid, "--json", LD_LIBRARY_PATH=folder)
    assert "not built" in json.loads(said)["engine"]["problem"]
    assert not mark.exists()


@pytest.mark.parametrize("pack", ["with", "without"])
def test_the_zipapp_has_its_engine_inside(subject: Subject, root: Path, tmp_path: Path, pack: str) -> None:
    """It is loaded from memory, and nothing that lies beside the archive is."""
    needs_the_engine()
    app, inside = tmp_path / "arenascope.pyz", in_archive(os.uname().machine)
    environment = {} if pack == "with" else {"ARENASCOPE_ENGINE": "none"}
    run(sys.executable, ROOT / "scripts" / "pack.py", app, **environment)
    marks = {made(tmp_path / place) for place in (NAME, f"arenascope/{NAME}", inside, BUILT)}
    found = version(app, subject.pid)
    if pack == "with":
        assert found == {"interface": INTERFACE, "path": f"{app}/{inside}", "problem": None}
        assert json.loads(run(*BARE, app, "owners", subject.pid, "--json"))["complete"]
    else:
        assert f"none for {os.uname().machine} in this archive" in str(found["problem"])
    assert not any(mark.exists() for mark in marks)


CRATES = {
    "gimli": "reads unwind tables and debug information",
    "fallible-iterator": "named by gimli, not compiled",
    "stable_deref_trait": "named by gimli, not compiled",
    "object": "reads files and their sections",
    "memchr": "of object",
    "miniz_oxide": "inflates sections that are compressed by zlib",
    "adler2": "of miniz_oxide",
    "ruzstd": "inflates sections that are compressed by zstd",
    "cpp_demangle": "names of C++ symbols",
    "cfg-if": "of cpp_demangle",
    "rustc-demangle": "names of Rust's symbols",
}
"""What the engine needs beside the standard library, and why."""


def test_the_crate_needs_no_other_crates() -> None:
    lines = (ROOT / "engine" / "Cargo.lock").read_text().splitlines()
    names = {line.split('"')[1] for line in lines if line.startswith("name = ")}
    assert names == {"arenascope", *CRATES}


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_that_is_named_builds_it(subject: Subject, tmp_path: Path) -> None:
    needs_a_checkout(ROOT)
    if subprocess.run([ROOT / "scripts" / "engine.sh", "cargo"], capture_output=True).returncode:
        pytest.skip("no cargo here that is new enough: make engine says which")
    root = tmp_path / "check out"
    run("git", "clone", "-q", "--no-hardlinks", ROOT, root)
    said = str(version(root / "bin" / "arenascope", subject.pid)["problem"])
    command = said.partition("(")[2].rstrip(")")
    said = run("sh", "-c", command)
    assert [line for line in said.splitlines() if not line.startswith("make")][1:] == [], said
    assert version(root / "bin" / "arenascope", subject.pid)["interface"] == INTERFACE
    assert "engine: " not in run("sh", "-c", command)
