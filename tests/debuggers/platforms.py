"""On which glibc a subject runs: the host's own, or one that scripts/releases.sh fetched and built the fixtures for."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "fixtures" / "build"
MACHINES = {"i686": "i386", "armv7l": "arm", "ppc64le": "ppc64"}


def why_absent(folder: Path) -> str:
    """In the words of scripts/fetch_libc.sh, where it is that one that failed."""
    reason = folder.with_name(f"{folder.name}.absent")
    return reason.read_text().strip() if reason.exists() else "make releases says why"


def not_fetched() -> list[str]:
    """Why, of each libc that scripts/fetch_libc.sh did not get; none where that is most of them: CI does not pass over
    an archive that is out of reach."""
    absent = [*BUILD.glob("*.absent"), *BUILD.glob("*/libc.absent")]
    there = [*BUILD.glob("*/version"), *BUILD.glob("*/libc/version")]
    return [each.read_text().strip() for each in absent] if len(absent) < len(there) else []


@dataclass(frozen=True)
class Platform:
    """A release for one machine. Its fixtures lie in one folder, beside the libc that they run on."""

    id: str
    release: str
    machine: str

    @property
    def programs(self) -> Path:
        return BUILD if self == HOST else BUILD / self.id

    @property
    def root(self) -> Path:
        """Where its libc is unpacked, of which no debugger knows by itself."""
        return self.programs / "libc" / "root"

    @property
    def debug(self) -> Path:
        return self.root / "usr" / "lib" / "debug"

    @property
    def libraries(self) -> Path:
        """Where libc.so.6 and libthread_db.so.1 are."""
        return next(self.root.glob("lib/*/libc.so.6")).parent

    @property
    def pointer_bytes(self) -> int:
        return 4 if self.machine in ("i386", "arm") else 8

    @property
    def header(self) -> int:
        """CHUNK_HDR_SZ: what lies between a chunk and the pointer that malloc returned."""
        return 2 * self.pointer_bytes

    @property
    def has_fastbins(self) -> bool:
        return not self.since(2, 43)

    def since(self, *release: int) -> bool:
        return tuple(map(int, self.release.split("."))) >= release

    @property
    def heap_max(self) -> int:
        """HEAP_MAX_SIZE: the address space of a heap, and what it is aligned to."""
        return (64 << 20) if self.pointer_bytes == 8 else 1 << 20

    @property
    def missing(self) -> Optional[str]:
        """Why nothing can run on it here, or None."""
        if self == HOST or (self.programs / "built").exists():
            return None
        return f"there is no glibc {self.release} for {self.machine} here: {why_absent(self.programs / 'libc')}"


def _host() -> Platform:
    machine = os.uname().machine
    return Platform("host", os.confstr("CS_GNU_LIBC_VERSION").split()[-1], MACHINES.get(machine, machine))


HOST = _host()


def needs_the_lock(door: str = "shell") -> None:
    """For `trim --apply --tops`: the shell takes a top's lock by a function that libc exports since 2.34."""
    if door == "shell" and not hasattr(ctypes.CDLL(None), "__lll_lock_wait_private"):
        pytest.skip("the host's libc does not export __lll_lock_wait_private")


def needs_a_checkout(root: Path) -> None:
    """Where git is asked for the files or the commit. The sdist has all else that tests need."""
    if not (root / ".git").exists():
        pytest.skip("this is no git checkout")


ELSEWHERE = (
    Platform("2.31", "2.31", "x86_64"),
    Platform("2.41", "2.41", "x86_64"),
    Platform("2.43", "2.43", "x86_64"),
    Platform("2.44", "2.44", "x86_64"),
    Platform("i386", "2.36", "i386"),
)


def host_and(*releases: str) -> list[Any]:
    """Parameters: the host's own glibc, and for the same machine these, which `make test-all` runs alone."""
    return [
        pytest.param(each, id=each.id, marks=[] if each == HOST else pytest.mark.full)
        for each in (HOST, *ELSEWHERE)
        if each.machine == HOST.machine and each.release in (HOST.release, *releases)
    ]


def libc_of(program: Path) -> Optional[Platform]:
    """What a fixture runs on; None for the host's."""
    return next((each for each in ELSEWHERE if program.parent == each.programs), None)
