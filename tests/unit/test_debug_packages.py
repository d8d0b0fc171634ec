"""The package with a file's debug symbols, below roots as dpkg leaves them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from arenascope.sources.debug_packages import debug_package

STATUS = """\
Package: git
Status: install ok installed
Architecture: amd64
Version: 1:2.39.5-0+deb12u2

Package: libc6
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Source: glibc

Package: libssl3
Architecture: amd64
Source: openssl (3.0.17-1~deb12u2)

Package: python3.11-minimal
Architecture: amd64
Source: python3.11

Package: script
Architecture: all
"""
FILES = {
    "git": "/usr/bin/git",
    "libc6:amd64": "/lib/x86_64-linux-gnu/libc.so.6",
    "libc6:i386": "/lib/i386-linux-gnu/libc.so.6",
    "libssl3:amd64": "/usr/lib/x86_64-linux-gnu/libssl.so.3",
    "python3.11-minimal": "/usr/bin/python3.11",
    "script": "/usr/bin/script",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    info = tmp_path / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    for package, file in FILES.items():
        (info / f"{package}.list").write_text(f"/.\n{file}\n{file}-more\n")
    (tmp_path / "var/lib/dpkg/status").write_text(STATUS)
    (tmp_path / "var/lib/dpkg/arch").write_text("amd64\ni386\n")
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/os-release").write_text('NAME="Debian"\nID=debian\n')
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").symlink_to("/usr/lib/os-release")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("/usr/bin/git", "git-dbgsym"),
        # dpkg's list has the path of before /lib was a link
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "libc6-dbg"),
        ("/lib/i386-linux-gnu/libc.so.6", "libc6-dbg:i386"),
        ("/usr/lib/x86_64-linux-gnu/libssl.so.3", "libssl3-dbgsym"),
        ("/usr/bin/python3.11", "python3.11-dbg"),
        ("/usr/bin/script", None),
        ("/usr/bin/gi", None),
        ("/usr/local/bin/git", None),
    ],
)
def test_package_of_a_file(root: Path, file: str, package: str) -> None:
    assert debug_package(str(root), file) == package


@pytest.mark.parametrize(
    ("identity", "package"), [("ubuntu", "git-dbgsym"), ('"debian"', "git-dbgsym"), ("fedora", None)]
)
def test_only_debian_and_ubuntu_have_them(root: Path, identity: str, package: str) -> None:
    (root / "usr/lib/os-release").write_text(f"VERSION_ID=1\nID={identity}\nID_LIKE=debian\n")
    assert debug_package(str(root), "/usr/bin/git") == package


def test_a_fifo_in_place_of_a_file_is_not_waited_for(root: Path) -> None:
    (root / "var/lib/dpkg/status").unlink()
    os.mkfifo(root / "var/lib/dpkg/status")
    os.mkfifo(root / "var/lib/dpkg/info/aaa.list")
    assert debug_package(str(root), "/usr/bin/git") == "git-dbgsym"


def test_links_do_not_lead_out_of_the_root(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "other.list"
    outside.write_text("/.\n/opt/other\n")
    (root / "var/lib/dpkg/info/other.list").symlink_to(outside)
    assert debug_package(str(root), "/opt/other") is None
