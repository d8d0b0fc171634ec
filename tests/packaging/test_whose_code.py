"""Whose code runs with ours, through every door: of libraries that another user has put near the package, none does."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Callable, Iterator, Optional, Sequence

import pytest
from doors import DOORS, NEWEST
from looks import ROOT, completed, plain_environment
from marks import full_after
from subjects import Subject

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="files of other users are made (not root)"),
]
ANOTHER, THIRD = 12345, 54321
PLANTED = "prometheus_client"
FEWER = "import sys; sys.path[:] = [each for each in sys.path if 'packages' not in each]"
"""No library of the debugger's own Python, so that each is looked for further on."""
BARE = (sys.executable, "-I", "-S")
START = "import sys; sys.path.insert(0, {!r}); from arenascope.__main__ import run; run()"


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with Subject("bins") as subject:
        yield subject


def plant(root: Path, mark: Path) -> Path:
    """A .venv in whose library a line tells that it was run; the library's folder."""
    libraries = root / ".venv" / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    for name in ("tabulate", "pygments", "tqdm", PLANTED):
        (libraries / name).mkdir(parents=True)
        (libraries / name / "__init__.py").write_text(f"open({str(mark)!r}, 'a').write(__name__ + ' ')\n")
    return libraries / PLANTED


def give(path: Path, owner: int) -> None:
    os.chown(path, owner, owner, follow_symlinks=False)


def give_all(path: Path, owner: int) -> None:
    for each in (path, *path.rglob("*")):
        give(each, owner)


def run(*words: object, cwd: str = "/") -> str:
    return completed(*words, cwd=cwd).stdout


def checkout(root: Path) -> Path:
    for name in ("bin", "common", "gdb", "lldb"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def wheel(root: Path) -> Path:
    """As `pip install --target` unpacks it."""
    package = root / "lib" / "arenascope"
    shutil.copytree(ROOT / "common" / "arenascope", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("gdb", "lldb"):
        shutil.copytree(ROOT / name, package / "doors" / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def zipapp(root: Path) -> Path:
    run(sys.executable, ROOT / "scripts" / "pack.py", root / "arenascope.pyz")
    return root


def debugged(door: str, file: Path, pid: int) -> str:
    if door == "gdb":
        words = ["gdb", "-nx", "-q", "-batch", "-p", pid]
        return run(*words, "-ex", f"python {FEWER}", "-x", file, "-ex", "heap version")
    load = [f"script {FEWER}", f"command script import {file}", "heap version"]
    return run(door, "-x", "-b", "-p", pid, *(word for each in load for word in ("-o", each)))


def version(made: Callable[[Path], Path], root: Path, door: str, pid: int) -> str:
    """What `version` says, which looks at every library."""
    if door != "shell":
        folder = door.partition("-")[0]
        file = Path(folder, "arena.py") if made is checkout else Path("lib", "arenascope", "doors", folder, "arena.py")
        return debugged(door, root / file, pid)
    start: dict[Callable[[Path], Path], tuple[object, ...]] = {
        checkout: (root / "bin" / "arenascope",),
        wheel: ("-c", START.format(str(root / "lib"))),
        zipapp: (root / "arenascope.pyz",),
    }
    return run(*BARE, *start[made], "version", pid)


@pytest.mark.parametrize("owner", [ANOTHER, None], ids=["another's", "the user's"])
@pytest.mark.parametrize(
    ("made", "door"),
    [
        (zipapp, "shell"),
        (wheel, NEWEST[1]),
        *(pytest.param(made, door, marks=pytest.mark.full) for made in (wheel, checkout) for door in NEWEST[::2]),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_an_environment_nearby(
    subject: Subject, tmp_path: Path, made: Callable[[Path], Path], door: str, owner: Optional[int]
) -> None:
    """A checkout has one, unless somebody else made it; an installed package or a file in /tmp has none."""
    if why := DOORS[door].available():
        pytest.skip(why)
    root, mark = tmp_path / "root", tmp_path / "mark"
    root.mkdir()
    root.chmod(0o1777)
    made(root)
    plant(root, mark)
    if owner is not None:
        give_all(root / ".venv", owner)
    said = version(made, root, door, subject.pid)
    believed = made is checkout and owner is None
    assert mark.exists() is believed, mark.read_text() if mark.exists() else said
    assert (f"{PLANTED}: not found" in said) is not believed, said


def loads(root: Path) -> bool:
    code = f"import sys; sys.path.insert(0, {str(root / 'common')!r})\nfrom arenascope.base import optional_libraries\n"
    return run(*BARE, "-c", f"{code}print(optional_libraries.load({PLANTED!r}) is not None)") == "True\n"


WAY = (".venv", ".venv/lib", "python", "site-packages", "library", "file")
BEHIND = ("link", "place of the link", "a folder above it")


@pytest.mark.parametrize(
    ("links", "others"),
    [
        (False, None),
        (False, "library"),
        (True, None),
        (True, "link"),
        *(pytest.param(False, others, marks=pytest.mark.full) for others in WAY if others != "library"),
        *(pytest.param(True, others, marks=pytest.mark.full) for others in (*WAY, *BEHIND) if others != "link"),
    ],
)
def test_all_on_the_way_to_a_library_is_asked_for_its_owner(tmp_path: Path, others: Optional[str], links: bool) -> None:
    """Another user's folder, file or link is never believed, also not behind a link that is ours."""
    root, mark = checkout(tmp_path / "root"), tmp_path / "mark"
    library = plant(root, mark)
    away = tmp_path / "above" / "place" / "environment"
    if links:
        away.parent.mkdir(parents=True)
        shutil.move(root / ".venv", away)
        (root / ".venv").symlink_to(away)
    lib = (root / ".venv").resolve() / "lib"
    python = next(lib.iterdir())
    site = python / "site-packages"
    places = dict(zip(WAY, (lib.parent, lib, python, site, site / PLANTED, site / PLANTED / "__init__.py")))
    places.update(zip(BEHIND, (root / ".venv", away.parent, away.parent.parent)))
    if others is not None:
        give(places[others], ANOTHER)
    assert library.exists()
    assert loads(root) is (others is None)
    assert mark.exists() is (others is None)


@pytest.mark.parametrize("place", full_after(3, WAY))
@pytest.mark.parametrize(
    ("mode", "package", "believed"),
    [
        (0o777, 0o755, False),
        pytest.param(0o775, 0o755, False, marks=pytest.mark.full),
        pytest.param(0o775, 0o775, True, marks=pytest.mark.full),
        pytest.param(0o755, 0o755, True, marks=pytest.mark.full),
    ],
)
def test_where_others_may_write(tmp_path: Path, place: str, mode: int, package: int, believed: bool) -> None:
    """What they add beside a library could be imported by it; who may write to the package itself needs no library."""
    root, mark = checkout(tmp_path / "root"), tmp_path / "mark"
    site = plant(root, mark).parent
    places = (site.parents[2], site.parents[1], site.parent, site, site / PLANTED, site / PLANTED / "__init__.py")
    for each, its in ((dict(zip(WAY, places))[place], mode), (root / "common" / "arenascope", package)):
        os.chown(each, 0, ANOTHER)
        each.chmod(its)
    assert loads(root) is believed
    assert mark.exists() is believed


def test_a_shared_folder_above_the_environment_and_as_its_library_folder(tmp_path: Path) -> None:
    root, mark = checkout(tmp_path / "root"), tmp_path / "mark"
    site = plant(root, mark).parent
    site.parents[2].chmod(0o1777)
    assert loads(root)
    site.chmod(0o1777)
    assert not loads(root)


@pytest.mark.parametrize("words", [(), ("-S",)])
def test_pythonpath_that_names_the_standard_library(tmp_path: Path, words: Sequence[str]) -> None:
    """What follows there counts for nothing all the same."""
    named, mark = tmp_path / "named", tmp_path / "mark"
    for name in ("lz4", "zstandard"):
        (named / name).mkdir(parents=True)
        (named / name / "__init__.py").write_text(f"open({str(mark)!r}, 'a').write(__name__ + ' ')\n")
    packed = tmp_path / "core.lz4"
    packed.write_bytes(b"\x04\x22\x4d\x18" + bytes(4096))
    start = START.format(str(ROOT / "common"))
    environment = plain_environment({"PYTHONPATH": f"{os.path.dirname(os.__file__)}:{named}"})
    completed(sys.executable, *words, "-c", start, "report", packed, status=2, env=environment)
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("owner", [ANOTHER, THIRD], ids=["the checkout's owner", "a third user"])
def test_a_checkout_of_somebody_else_has_its_own_environment(tmp_path: Path, owner: int) -> None:
    """Whoever runs a checkout runs its owner's code: its .venv may be the owner's, and nobody else's."""
    root, mark = checkout(tmp_path / "root"), tmp_path / "mark"
    plant(root, mark)
    give_all(root, ANOTHER)
    give_all(root / ".venv", owner)
    assert loads(root) is (owner == ANOTHER)


def test_a_link_within_the_checkout(tmp_path: Path) -> None:
    """lib may be a link to lib64; what lies above the checkout is not asked for that."""
    root, mark = checkout(tmp_path / "others" / "root"), tmp_path / "mark"
    plant(root, mark)
    (root / ".venv" / "lib").rename(root / ".venv" / "lib64")
    (root / ".venv" / "lib").symlink_to("lib64")
    give(root.parent, ANOTHER)
    assert loads(root)


@pytest.mark.parametrize("door", full_after(1, NEWEST[::-1]))
def test_pythonpath_and_the_working_directory(subject: Subject, tmp_path: Path, door: str) -> None:
    """Neither's libraries, and no package of our name there."""
    if why := DOORS[door].available():
        pytest.skip(why)
    root, named, here = checkout(tmp_path / "root"), tmp_path / "named", tmp_path / "here"
    mark = tmp_path / "mark"
    for folder in (named, here):
        for name in ("arenascope", "tabulate", "pygments", "tqdm", PLANTED):
            (folder / name).mkdir(parents=True)
            (folder / name / "__init__.py").write_text(f"open({str(mark)!r}, 'a').write(__name__ + ' ')\n")
    paths = f"PYTHONPATH={named}::"
    if door == "shell":
        start = START.format(str(root / "common"))
        said = run("env", paths, sys.executable, "-S", "-c", start, "version", subject.pid, cwd=str(here))
    elif door == "gdb":
        words = ["gdb", "-nx", "-q", "-batch", "-p", subject.pid]
        load = ["-ex", f"python {FEWER}", "-x", root / "gdb" / "arena.py", "-ex", "heap version"]
        said = run("env", paths, *words, *load, cwd=str(here))
    else:
        load = [f"script {FEWER}", f"command script import {root / 'lldb' / 'arena.py'}", "heap version"]
        words = ["-x", "-b", "-p", subject.pid, *(word for each in load for word in ("-o", each))]
        said = run("env", paths, door, *words, cwd=str(here))
    assert not mark.exists(), mark.read_text()
    assert f"{PLANTED}: not found" in said
