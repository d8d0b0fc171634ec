"""--sysroot: the files that a core names, looked for below a folder, and nowhere else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from marks import in_full
from shell_door import ask, look
from test_other_files import NAMES, OTHER_FILES, Replaced, build

from arenascope.base.errors import TargetError
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.elf.elf_file import ElfFile
from arenascope.sources.elf.sysroot import file_within

# whoever waits for a FIFO waits for good
pytestmark = [pytest.mark.xdist_group("sysroot"), pytest.mark.timeout(60)]


class Elsewhere(NamedTuple):
    """A core whose program and library are no longer where it names them."""

    core: Path
    files: Replaced
    kept: Path
    """Where they are now, by their own names."""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    folder = tmp_path_factory.mktemp("elsewhere")
    files = build(folder)
    core = files.core(folder)
    kept = folder / "kept"
    files.program.parent.rename(kept)
    return Elsewhere(core, files, kept)


@pytest.fixture
def root(elsewhere: Elsewhere, tmp_path: Path) -> Path:
    """All files of that host but the library."""
    with CoreImage(str(elsewhere.core)) as image:
        paths = {region.path for region in image.regions() if region.is_file}
    for path in map(Path, paths):
        source = elsewhere.kept / path.name if path.parent == elsewhere.files.program.parent else path
        if source.is_file() and path != elsewhere.files.library:
            within(tmp_path / "root", path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, within(tmp_path / "root", path))
    within(tmp_path / "root", elsewhere.files.library).parent.mkdir(parents=True, exist_ok=True)
    return tmp_path / "root"


def within(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def tried(elsewhere: Elsewhere, *options: str) -> dict[str, str]:
    """Where it says that it looked for the first file that is not there."""
    document = ask(elsewhere.core, "types", *options)
    (said,) = [each["names"] for each in document["problem_records"] if each["id"] == OTHER_FILES]
    return {each: said[each] for each in ("absent", "unlike") if each in said}


def asked(elsewhere: Elsewhere, *options: str) -> tuple[str, list[str]]:
    """What owners and types say, and which files they say are not there."""
    said, named = "", []
    for command in ("owners", "types"):
        document = ask(elsewhere.core, f"{command} --limit 0", *options)
        said += json.dumps(document)
        strange = [each["names"]["named"] for each in document["problem_records"] if each["id"] == OTHER_FILES]
        assert len(strange) <= 1
        named += [name for each in strange for name in each.split(", ")]
    return said, named


TABLED = [each for each in NAMES if each != "right_member"]


def test_names_are_back(elsewhere: Elsewhere, root: Path) -> None:
    said, named = asked(elsewhere)
    assert "right" not in said
    assert sorted(set(named)) == ["libheld.so", "main"]
    assert tried(elsewhere) == {}
    place = within(root, elsewhere.files.library)
    assert tried(elsewhere, "--sysroot", str(root)) == {"absent": str(place)}
    shutil.copy(elsewhere.files.right, within(root, elsewhere.files.library))
    said, named = asked(elsewhere, "--sysroot", str(root))
    assert [each for each in TABLED if each not in said] == []
    assert named == []


def test_a_file_of_another_build(elsewhere: Elsewhere, root: Path) -> None:
    shutil.copy(elsewhere.files.wrong, within(root, elsewhere.files.library))
    said, named = asked(elsewhere, "--sysroot", str(root))
    assert "right" not in said
    assert "rong" not in said
    assert set(named) == {"libheld.so"}
    assert tried(elsewhere, "--sysroot", str(root)) == {"unlike": str(within(root, elsewhere.files.library))}


def test_debug_symbols_below_it(elsewhere: Elsewhere, root: Path) -> None:
    """As the packages of a distribution have them, by links among themselves."""
    right, inside = elsewhere.files.right, within(root, elsewhere.files.library)
    with ElfFile(str(right)) as file:
        build_id = file.build_id() or ""
    subprocess.run(["strip", "-o", inside, right], check=True)
    assert "right_static" not in asked(elsewhere, "--sysroot", str(root))[0]
    debug = root / "usr" / "lib" / "debug"
    (debug / ".build-id" / build_id[:2]).mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", right, debug / "held.debug"], check=True)
    (debug / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug").symlink_to("/usr/lib/debug/held.debug")
    said, named = asked(elsewhere, "--sysroot", str(root))
    assert "right_static" in said
    assert named == []


@pytest.mark.full
def test_links_stay_within(elsewhere: Elsewhere, root: Path) -> None:
    """As for a process of that root; what they lead to outside of it is the very file that is sought."""
    inside, right = within(root, elsewhere.files.library), elsewhere.files.right
    moved = root / "srv" / "held.so"
    moved.parent.mkdir()
    shutil.copy(right, moved)
    inside.symlink_to("/srv/held.so")
    assert asked(elsewhere, "--sysroot", str(root))[1] == []
    up = "../" * 40
    for leads in (str(right), f"{up}{right.relative_to('/')}", f"{up}..{right}"):
        inside.unlink()
        inside.symlink_to(leads)
        assert inside.is_file()
        said, named = asked(elsewhere, "--sysroot", str(root))
        assert "right_owner" not in said
        assert set(named) == {"libheld.so"}
    # a folder on the way
    folder = inside.parent
    inside.unlink()
    shutil.move(folder, root / "srv" / "app")
    folder.symlink_to(right.parent)
    assert set(asked(elsewhere, "--sysroot", str(root))[1]) == {"libheld.so", "main"}


@pytest.mark.parametrize("kind", ["link to a fifo", *in_full("fifo", "device", "folder", "loop", "socket")])
def test_what_is_no_regular_file(elsewhere: Elsewhere, root: Path, kind: str) -> None:
    inside = within(root, elsewhere.files.library)
    if kind.endswith("fifo"):
        fifo = inside if kind == "fifo" else root / "fifo"
        os.mkfifo(fifo)
        if kind != "fifo":
            inside.symlink_to("/fifo")
    elif kind == "device":
        try:
            os.mknod(inside, 0o20666, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("to make a device takes root")
    elif kind == "folder":
        inside.mkdir()
    elif kind == "loop":
        inside.symlink_to(inside.name)
    else:
        os.mknod(inside, 0o140666)
    assert set(asked(elsewhere, "--sysroot", str(root))[1]) == {"libheld.so"}


def test_a_fifo_in_place_of_a_file(tmp_path: Path) -> None:
    """Also where it became one after it was looked at."""
    path = tmp_path / "libc.so.6"
    os.mkfifo(path)
    with pytest.raises(TargetError):
        ElfFile(str(path))


def leave(path: Path, leads: Path) -> None:
    path.rename(path.with_name("before"))
    path.symlink_to(leads)


@pytest.mark.parametrize("what", ["file", "folder", "fifo"])
def test_what_was_put_in_its_place_since_is_not_opened(tmp_path: Path, what: str) -> None:
    """Between the look at a path and its opening: whoever can write below the root may race with us."""
    folder, outside = tmp_path / "root" / "usr" / "lib", tmp_path / "outside"
    folder.mkdir(parents=True)
    outside.mkdir()
    for each in (folder, outside):
        shutil.copy("/bin/true", each / "libc.so.6")
    found = file_within(str(tmp_path / "root"), "/usr/lib/libc.so.6")
    assert found is not None
    ElfFile(found).data.close()
    if what == "file":
        leave(folder / "libc.so.6", outside / "libc.so.6")
    elif what == "folder":
        leave(folder, outside)
    else:
        (folder / "libc.so.6").unlink()
        os.mkfifo(folder / "libc.so.6")
    with pytest.raises(TargetError):
        ElfFile(found)
    assert what == "fifo" or Path(found).read_bytes() == Path("/bin/true").read_bytes()


def test_no_folder(elsewhere: Elsewhere, tmp_path: Path) -> None:
    status, said, complained = look(elsewhere.core, "arenas", "--sysroot", str(tmp_path / "nowhere"))
    assert (status, said, complained.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/usr/lib/libc.so.6", "usr/lib/libc-2.so"),
        ("/lib/libc.so.6", "usr/lib/libc-2.so"),
        ("/lib64/libc.so.6", "usr/lib/libc-2.so"),
        ("usr/./lib//libc-2.so", "usr/lib/libc-2.so"),
        ("/../../usr/lib/../lib/libc-2.so", "usr/lib/libc-2.so"),
        ("/up/usr/lib/libc-2.so", "usr/lib/libc-2.so"),
        ("/usr/lib", None),
        ("/usr/lib/libc-2.so/", "usr/lib/libc-2.so"),
        ("/usr/lib/libc-2.so/more", None),
        ("/outside/secret", None),
        ("/round/secret", None),
        ("/nowhere", None),
        ("/", None),
        ("", None),
        ("/usr/" + "x" * 5000, None),
        ("/usr/\0", None),
    ],
)
def test_a_path_as_that_root_has_it(tmp_path: Path, path: str, found: str | None) -> None:
    root = tmp_path / "root"
    (root / "usr" / "lib").mkdir(parents=True)
    (tmp_path / "secret").touch()
    (root / "usr" / "lib" / "libc-2.so").touch()
    for name, leads in (
        ("usr/lib/libc.so.6", "libc-2.so"),
        ("lib", "usr/lib"),
        ("lib64", "/lib"),
        ("up", "../../.."),
        ("outside", str(tmp_path)),
        ("round", "/round2"),
        ("round2", "round"),
    ):
        (root / name).symlink_to(leads)
    assert file_within(str(root), path) == (None if found is None else str(root.resolve() / found))


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="a file system is mounted (not root)")
def test_the_root_of_another_process(tmp_path: Path) -> None:
    """/proc/PID/root reads as a path, which is another folder for whoever is not in that process's container."""
    inside = f"mount -t tmpfs none {tmp_path} && touch {tmp_path}/libc.so.6 && echo ready && exec sleep 60"
    (tmp_path / "ours").touch()
    with subprocess.Popen(["unshare", "-m", "sh", "-c", inside], stdout=subprocess.PIPE, text=True) as container:
        try:
            if container.stdout.readline() != "ready\n":
                pytest.skip("nothing may be mounted here")
            root = f"/proc/{container.pid}/root{tmp_path}"
            assert file_within(root, "/libc.so.6") == f"{root}/libc.so.6"
            assert file_within(root, "/ours") is None
        finally:
            container.kill()
