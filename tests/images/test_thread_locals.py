"""Offsets of thread-local variables out of a file's table of symbols, as the program that loads it sees them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from looks import needs

from arenascope.sources.elf.elf_file import ElfFile, tls_offsets

# one has an initialiser (.tdata), the other none (.tbss), and others stand between, as in libc from 2.43 on
LIBRARY = """
static int plain;
static __thread long first[5] = {1};
static __thread void *tcache = &plain;
static __thread long between[7];
static __thread void *thread_arena;
long far(void) { between[1] = plain + first[1]; return (char *)&tcache - (char *)&thread_arena; }
"""
PROGRAM = '#include <stdio.h>\nlong far(void); int main(void) { printf("%ld\\n", far()); }'


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """(a library, how far its tcache is from its thread_arena by its own word)."""
    needs("gcc")
    folder = tmp_path_factory.mktemp("locals")
    (folder / "lib.c").write_text(LIBRARY)
    (folder / "main.c").write_text(PROGRAM)
    path = folder / "lib.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,--build-id", "-o", path, folder / "lib.c"], check=True)
    subprocess.run(["gcc", "-o", folder / "main", folder / "main.c", path, f"-Wl,-rpath,{folder}"], check=True)
    return path, int(subprocess.run([folder / "main"], check=True, capture_output=True, text=True).stdout)


def test_distance(library: tuple[Path, int]) -> None:
    path, distance = library
    with ElfFile(str(path)) as file:
        build_id = file.build_id() or ""
    found = tls_offsets(["/nowhere", str(path)], build_id, ("tcache", "thread_arena", "plain"))
    assert found["tcache"] - found["thread_arena"] == distance
    assert abs(distance) > 16
    assert "plain" not in found


def test_another_file_and_a_stripped_one(library: tuple[Path, int], tmp_path: Path) -> None:
    path, _ = library
    assert tls_offsets([str(path)], "00" * 20, ("tcache",)) == {}
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", stripped, path], check=True)
    with ElfFile(str(stripped)) as file:
        assert tls_offsets([str(stripped)], file.build_id() or "", ("tcache", "thread_arena")) == {}
