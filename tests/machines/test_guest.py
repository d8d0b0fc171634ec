"""trim --apply in the shell on aarch64 under a kernel of its own, by the same tests as here: registers, signals, calls.

Its processor has scalable vectors and signs return addresses.
"""

from __future__ import annotations

import importlib.util
import os
import re
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, Iterator, Mapping, Optional, Sequence

import pytest
from looks import give_up, needs
from platforms import BUILD, ROOT, why_absent

GUEST = BUILD / "guest"
EMULATOR = "qemu-system-aarch64"
BOOT_SECONDS = 3000
SITE = ("_pytest", "pytest", "pluggy", "iniconfig", "packaging", "pygments", "pytest_timeout", "py")
NO_LEXERS = re.compile(r"pygments/lexers/(?!(__init__|_mapping|diff|python)\.py)")
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
ln -s /usr/bin/python3.11 /bin/python3
export PATH=/bin:/usr/bin HOME=/tmp PYTHONPATH=/site PYTHONDONTWRITEBYTECODE=1 LANG=C.UTF-8 ARENASCOPE_PATIENCE=20
cd /repo
python3 -m pytest -p no:cacheprovider -o console_output_style=classic -o timeout=0 -v --color=no -rfE --tb=short %s 2>&1
poweroff -f
"""


class Archive:
    """A cpio archive, as the kernel unpacks it (Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._number, self._folders = file, 0, {""}

    def add(self, name: str, mode: int, data: bytes = b"") -> None:
        above = os.path.dirname(name)
        if above not in self._folders:
            self._folders.add(above)
            self.add(above, stat.S_IFDIR | 0o755)
        if stat.S_ISDIR(mode):
            self._folders.add(name)
        self._number += 1
        path = os.fsencode(name) + b"\0"
        fields = (self._number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        header = b"070701" + b"".join(b"%08X" % each for each in fields)
        self._file.write((header + path).ljust(-(-len(header + path) // 4) * 4, b"\0"))
        self._file.write(data.ljust(-(-len(data) // 4) * 4, b"\0"))

    def add_tree(self, root: Path, name: str = "") -> None:
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(set(folders) - {"__pycache__"})
            for each in [*folders, *sorted(files)]:
                path = Path(folder, each)
                inside = os.path.join(name, str(path.relative_to(root)))
                if not NO_LEXERS.search(inside):
                    self.add_path(path, inside)

    def add_path(self, path: Path, name: str) -> None:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            self.add(name, mode, os.fsencode(os.readlink(path)))
        elif stat.S_ISDIR(mode):
            self.add(name, mode)
        elif stat.S_ISREG(mode):
            self.add(name, mode, path.read_bytes())
            if path.suffix == ".py":
                self._compiled(path, name)

    def _compiled(self, path: Path, name: str) -> None:
        """Emulated, compiling takes most of a start: unchecked, as the file has no time here."""
        if sys.version_info[:2] != (3, 11):
            return  # the guest's
        import marshal

        try:
            code = compile(path.read_bytes(), f"/{name}", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return  # of another release, to show that it is refused
        folder, file = os.path.split(name)
        data = importlib.util.MAGIC_NUMBER + struct.pack("<I8x", 1) + marshal.dumps(code)
        self.add(f"{folder}/__pycache__/{file[:-3]}.cpython-311.pyc", stat.S_IFREG | 0o644, data)


def boot(tests: Sequence[str], folder: Path) -> Mapping[str, str]:
    """Runs these tests in the guest; how each came off by its node id, with what it said where it failed."""
    needs(EMULATOR)
    if not (GUEST / "built").exists():
        give_up(f"there is no guest to boot here: {why_absent(GUEST / 'libc')}")
    files = folder / "initramfs"
    with files.open("wb") as file:
        _fill(Archive(file), tests)
    command = [EMULATOR, "-M", "virt", "-cpu", "max,pauth-impdef=on", "-m", "1024", "-nographic", "-nic", "none"]
    command += ["-no-reboot", "-kernel", str(GUEST / "kernel"), "-initrd", str(files)]
    # nobody waits for entropy, nor fills what was given back with huge pages
    settings = "console=ttyAMA0 panic=-1 quiet random.trust_bootloader=on transparent_hugepage=madvise rdinit=/init"
    command += ["-append", settings]
    with (folder / "console").open("wb") as console:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, timeout=BOOT_SECONDS)
    files.unlink()
    return outcomes((folder / "console").read_text(errors="replace"))


def outcomes(said: str) -> Mapping[str, str]:
    rows = dict(re.findall(r"^(tests/\S+::\S+) (PASSED|FAILED|ERROR|SKIPPED)", said, re.MULTILINE))
    return {name: row if row == "PASSED" else f"{row}\n{said[-6000:]}" for name, row in rows.items()} or {"": said}


def _fill(archive: Archive, tests: Sequence[str]) -> None:
    for name in ("dev", "proc", "sys", "tmp", "repo"):
        archive.add(name, stat.S_IFDIR | 0o755)
    archive.add_tree(GUEST / "libc" / "root")
    for name in ("bin", "common", "tests"):
        archive.add_tree(ROOT / name, f"repo/{name}")
    archive.add_path(ROOT / "pyproject.toml", "repo/pyproject.toml")
    archive.add_tree(GUEST / "programs", "repo/fixtures/build")
    for path, name in _site():
        if path.is_dir():
            archive.add_tree(path, name)
        else:
            archive.add_path(path, name)
    archive.add("init", stat.S_IFREG | 0o755, (INIT % " ".join(f"'{each}'" for each in tests)).encode())
    archive.add("TRAILER!!!", 0)


def _site() -> Iterator[tuple[Path, str]]:
    """pytest as it runs here, all of it Python, and what says of which release it is, by which plugins are found."""
    for name in SITE:
        spec: Optional[importlib.machinery.ModuleSpec] = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        path = Path(spec.origin)
        path = path.parent if path.name == "__init__.py" else path
        yield path, f"site/{path.name}"
        yield from ((each, f"site/{each.name}") for each in path.parent.glob(f"{name}-*.dist-info"))


CALLING, ELSEWHERE = "tests/images/test_calling.py", "tests/images/test_calling_elsewhere.py"
TESTS = (
    f"{ELSEWHERE}::test_another_release[host]",
    f"{CALLING}::test_a_thread_that_computes_is_left_as_it_was",
    f"{CALLING}::test_whoever_waits_goes_on_waiting[host]",
    f"{CALLING}::test_a_guard_that_is_killed_anywhere_leaves_it_sound[top]",
    f"{CALLING}::test_a_guard_that_is_killed_anywhere_leaves_it_sound[trim]",
    f"{CALLING}::test_a_process_that_never_stands_still[own-arenas]",
    f"{CALLING}::test_no_signal_is_lost",
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    return boot(TESTS, tmp_path_factory.mktemp("guest"))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.timeout(3300)
@pytest.mark.xdist_group("guest")
@pytest.mark.parametrize("name", TESTS, ids=[each.rpartition("::test_")[2] for each in TESTS])
def test_in_the_guest(seen: Mapping[str, str], name: str) -> None:
    said = seen.get(name, f"it did not run:\n{seen.get('', seen)}")
    if said != "PASSED":
        pytest.fail(said[-8000:], pytrace=False)
