"""Finds the package of Debian or Ubuntu with a file's debug symbols, from dpkg's lists on the file's host."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Iterator, Optional

from .elf.sysroot import file_within, open_regular

DISTRIBUTIONS = ("debian", "ubuntu")
LONGEST = 32 << 20
MOST_LISTS = 1 << 14
FILES = "/var/lib/dpkg/info"
STATUS, ARCHITECTURES, RELEASES = (
    "/var/lib/dpkg/status",
    "/var/lib/dpkg/arch",
    ("/etc/os-release", "/usr/lib/os-release"),
)
MERGED = re.compile(r"/usr(/(?:bin|sbin|lib\w*)/.*)")
"""Folders in the root that are links into /usr: a mapping may have another path than dpkg's list."""
OF_SOURCES = (
    (re.compile(r"glibc"), "libc6-dbg"),
    (re.compile(r"(?:python3\.\d+|openjdk-\d+)"), r"\g<0>-dbg"),
)
"""Sources that build one package with the symbols of all their files; others have one for each package."""


def debug_package(root: str, path: str) -> Optional[str]:
    """Returns the package for a file by its path below `root`; None on another distribution, or if no package has the
    file."""
    if _distribution(root) not in DISTRIBUTIONS:
        return None
    found = _package_of(root, path)
    if found is None:
        return None
    package, _, architecture = found.partition(":")
    described = _described(root, package)
    if described.get("Architecture") == "all":
        return None
    source = described.get("Source", package).split(" ")[0]
    name = next((form.sub(of, source) for form, of in OF_SOURCES if form.fullmatch(source)), f"{package}-dbgsym")
    native = _read(root, ARCHITECTURES).decode("utf-8", "replace").split("\n")[0]
    return f"{name}:{architecture}" if architecture and native not in ("", architecture) else name


def _distribution(root: str) -> str:
    text = next(filter(None, (_read(root, each) for each in RELEASES)), b"")
    found = re.search(rb"^ID=[\"']?(\w+)", text, re.MULTILINE)
    return found[1].decode() if found else ""


def _package_of(root: str, path: str) -> Optional[str]:
    """Returns the package, with its architecture if several can be installed side by side: "libc6:amd64"."""
    merged = MERGED.fullmatch(path)
    wanted = [b"\n%b\n" % os.fsencode(each) for each in (path, *(merged.groups() if merged else ()))]
    for name in _lists(root):
        listed = b"\n" + _read(root, f"{FILES}/{name}")
        if any(each in listed for each in wanted):
            return name[: -len(".list")]
    return None


def _lists(root: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(os.path.join(root, FILES.lstrip("/"))) as folder:
        for number, each in enumerate(folder):
            if number < MOST_LISTS and each.name.endswith(".list"):
                yield each.name


def _described(root: str, package: str) -> dict[str, str]:
    """Returns one package's fields in dpkg's status; an architecture that is not the host's has the same source."""
    status = b"\n" + _read(root, STATUS)
    start = status.find(b"\nPackage: %b\n" % os.fsencode(package))
    if start < 0:
        return {}
    end = status.find(b"\n\n", start)
    lines = status[start + 1 : end if end > 0 else len(status)].decode("utf-8", "replace").split("\n")
    return {name: value for name, colon, value in (each.partition(": ") for each in lines) if colon}


def _read(root: str, path: str) -> bytes:
    """Reads a file; empty if there is none."""
    found = file_within(root, path)
    if found is None:
        return b""
    try:
        with open(open_regular(found), "rb") as file:
            return file.read(LONGEST)
    except OSError:
        return b""
