"""Another allocator in place of malloc: it is named, and what share glibc's arenas have of what is resident."""

from __future__ import annotations

import json
import re
import subprocess
from ctypes.util import find_library
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

import pytest
from doors import DOORS, NEWEST, Core, Door, Image, Live, Outcome
from looks import ROOT, give_up, needs, plain_environment
from shell_door import arenascope
from subjects import Subject
from waiting import await_that, state

import arenascope as api

FIXED = ["-std=gnu11", "-D_GNU_SOURCE", "-pthread", "-g", "-O1", "-fno-builtin"]
COMMANDS = ["version --json", "arenas --json", "version", "arenas", "arenas --quick --json"]
BUILD_SECONDS = 200


def library(name: str) -> str:
    found = find_library(name)
    if not found:
        give_up(f"lib{name} is not installed")
    return found


def build(program: Path, source: Path, compiler: str, *options: str) -> Path:
    """Where the compiler cannot, the test is skipped with its words."""
    needs(compiler)
    done = subprocess.run(
        [compiler, *FIXED, "-o", str(program), str(source), *options],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
    )
    if done.returncode:
        pytest.skip(f"{compiler} cannot build {program.name}: {done.stderr.strip().splitlines()[-1]}")
    return program


class Looks:
    """One subject from all sides: every door, live and core."""

    def __init__(
        self,
        program: str,
        *arguments: str,
        env: Optional[Mapping[str, str]] = None,
        core: str = "gcore",
    ) -> None:
        self.outcomes: dict[tuple[str, str], list[Outcome]] = {}
        with Subject(program, *arguments, env=env) as subject:
            self.smaps_text = Path(f"/proc/{subject.pid}/smaps").read_text()
            self.rss = subject.rollup("Rss")
            self.truth: dict[str, Any] = subject.truth if subject._file("truth.json") else {}
            self.libc_info = subject._file("libc-info.xml")
            self._look(Live(subject.pid, subject.program))
            if core:
                self._look(Core(getattr(subject, core)(), subject.program))

    def _look(self, image: Image) -> None:
        for name in NEWEST:
            door: Door = DOORS[name]
            if not door.available():
                self.outcomes[name, image.kind] = door.run(image, COMMANDS)

    def json(self, command: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """(where from, the document)."""
        assert self.outcomes, give_up("no debugger is installed")
        for (door, kind), outcomes in self.outcomes.items():
            yield f"{door} {kind}", outcomes[COMMANDS.index(f"{command} --json")].json()

    def words(self, command: str) -> Iterator[tuple[str, str]]:
        """(where from, what was written, or the error)."""
        for (door, kind), outcomes in self.outcomes.items():
            outcome = outcomes[COMMANDS.index(command)]
            yield f"{door} {kind}", outcome.error or outcome.text

    def rss_of(self, word: str) -> int:
        """Of the mappings whose first line in smaps ends so."""
        found = re.findall(
            rf"^[0-9a-f]+-[0-9a-f]+ .*{re.escape(word)}\n(?:.*\n)*?Rss: +(\d+) kB", self.smaps_text, re.MULTILINE
        )
        assert found, word
        return sum(int(each) for each in found) * 1024


def serving(document: Mapping[str, Any]) -> list[tuple[str, Optional[bool]]]:
    return [(each["name"], each["replaces_malloc"]) for each in document["allocators"]]


def check_replaced(looks: Looks, name: str, how: str) -> None:
    """This one serves malloc; figures of glibc's arenas are marked as no more than those."""
    for command in ("version", "arenas"):
        for where, document in looks.json(command):
            assert serving(document) == [(name, True)], where
            assert how in document["allocators"][0]["how"], where
            assert document["allocators"][0]["instead"]
            assert document["complete"] is False
            (past,) = [each for each in document["problem_records"] if each["id"] == "malloc-replaced"]
            assert past["names"]["allocators"] == f"{name} ({document['allocators'][0]['how']})", where
            assert document["allocators"][0]["instead"] in past["names"]["ask"], where
            if command == "arenas":
                held = document["totals"]["system_bytes"] + document["mmapped"]["bytes"]
                assert past["figures"]["glibc_bytes"] == held, where
        for where, text in looks.words(command):
            assert f"{name} ({document['allocators'][0]['how']}) " in text, where
            assert document["allocators"][0]["instead"] in text, where


def check_beside(looks: Looks, name: str) -> None:
    """It has a heap of its own, and malloc is glibc's."""
    for command in ("version", "arenas"):
        for where, document in looks.json(command):
            assert serving(document) == [(name, False)], where
            assert (document["complete"], document["problems"]) == (True, []), where
        for where, text in looks.words(command):
            assert f"{name} ({document['allocators'][0]['how']}) " in text, where


def check_share(looks: Looks) -> None:
    """What glibc's arenas have in memory: the break, which is theirs alone here, and the one block by mmap."""
    mapped = int(re.findall(r'<total type="mmap" count="\d+" size="(\d+)"', looks.libc_info)[-1])
    current = int(re.findall(r'<system type="current" size="(\d+)"', looks.libc_info)[-1])
    expected = (looks.rss_of("[heap]") if current else 0) + mapped
    for where, document in looks.json("arenas"):
        share = document["share"]
        if "live" not in where:
            assert share["rss_bytes"] is None
            continue
        assert share["glibc_resident_bytes"] == expected, where
        # what is read of a file is mapped by that
        assert 0 <= share["rss_bytes"] - looks.rss < 4 << 20, where
        assert document["totals"]["system_bytes"] + (document["mmapped"]["bytes"] or 0) == current + mapped, where
    for where, text in looks.words("arenas"):
        if "live" in where:
            told = re.search(r"glibc's arenas hold ([0-9.]+) % of the ([0-9.]+) MiB resident", text)
            assert told, where
            assert abs(float(told[1]) - 100 * expected / looks.rss) < 1.5, where


BESIDE = ROOT / "fixtures" / "beside.c"


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("jemalloc", "jemalloc"),
        pytest.param("tcmalloc", "tcmalloc_minimal", marks=pytest.mark.full),
        pytest.param("mimalloc", "mimalloc", marks=pytest.mark.full),
    ],
)
def test_preloaded(name: str, package: str) -> None:
    looks = Looks("beside", env={"LD_PRELOAD": library(package)})
    assert package in looks.truth["notes"]["malloc_is_of"]
    check_replaced(looks, name, f"lib{package}")
    check_share(looks)
    if name == "jemalloc":
        assert looks.truth["notes"]["mallctl_allocated"] >= 20 << 20
        # three million bytes went past it
        assert all(document["totals"]["system_bytes"] > 3_000_000 for _, document in looks.json("arenas"))


def test_another_allocator_is_named_once() -> None:
    """Also where glibc's malloc was never called; and the process is held once for that."""
    environment = plain_environment({"LD_PRELOAD": library("jemalloc")})
    with subprocess.Popen(["sleep", "600"], env=environment) as sleeping:
        try:
            await_that(lambda: state(sleeping.pid) == "S")
            assert "jemalloc" in Path(f"/proc/{sleeping.pid}/maps").read_text()
            for command in ("arenas", "bins", "report", "trim", "types", "version"):
                done = arenascope(command, sleeping.pid)
                assert done.stdout.count("serves malloc") == 1, done.stdout
                assert command == "version" or "jemalloc" in done.stdout.splitlines()[0]
                # of what is in use nothing is known
                assert "0 B" not in done.stdout, done.stdout
                assert done.stderr.count("stood still") == 1, done.stderr
                assert "stops" not in done.stderr, done.stderr
        finally:
            sleeping.kill()


def test_its_memory_is_not_copied_unasked() -> None:
    """A copy has nothing of its blocks to tell; of those that glibc serves beside it only who asks is told."""
    for environment, is_copied in ((None, True), ({"LD_PRELOAD": library("jemalloc")}, False)):
        with Subject("beside", env=environment) as subject:
            process = api.open(str(subject.pid))
            assert (process.report().findings is not None) is is_copied
            assert process.report(owners=True).findings is not None


def test_its_memory_is_not_trimmed() -> None:
    """That is no doubt about glibc's heap, and the process stays as it is."""
    with Subject("beside", env={"LD_PRELOAD": library("jemalloc")}) as subject:
        before = subject.rollup("Rss")
        done = arenascope("trim", subject.pid, "--apply", "-y", "--json", status=2)
        assert subject.rollup("Rss") == before
    assert [each["id"] for each in json.loads(done.stdout)["problem_records"]] == ["malloc-replaced"]


@pytest.mark.full
def test_two_are_both_named() -> None:
    """The first in the linker's order has malloc; the other is there for nothing, and is named all the same."""
    looks = Looks("beside", env={"LD_PRELOAD": f"{library('mimalloc')} {library('jemalloc')}"})
    assert "mimalloc" in looks.truth["notes"]["malloc_is_of"]
    for where, document in looks.json("arenas"):
        found = serving(document)
        assert found == [("mimalloc", True), ("jemalloc", False)], where
        assert [(each["shadowed_by"] or "")[:11] for each in document["allocators"]] == ["", "libmimalloc"]
    for where, text in looks.words("arenas"):
        assert "jemalloc" in text, where
        assert "mimalloc" in text, where


@pytest.mark.full
@pytest.mark.parametrize("how", ["needed", "static", "stripped"])
def test_linked_in(how: str, tmp_path: Path) -> None:
    if how == "needed":
        program = build(tmp_path / "needed", BESIDE, "gcc", "-no-pie", f"-l:{library('jemalloc')}", "-ldl")
    else:
        program = build(tmp_path / "static", BESIDE, "gcc", "-l:libjemalloc.a", "-lstdc++", "-lm", "-ldl")
    if how == "stripped":
        subprocess.run(["strip", "-o", str(tmp_path / "stripped"), str(program)], check=True)
        program = tmp_path / "stripped"
    looks = Looks(str(program))
    owner = looks.truth["notes"]["malloc_is_of"]
    assert "libjemalloc" in owner if how == "needed" else owner == str(program)
    check_replaced(looks, "jemalloc", "libjemalloc" if how == "needed" else f"in {program.name}")
    check_share(looks)


@pytest.mark.full
def test_a_library_that_malloc_does_not_lead_to(tmp_path: Path) -> None:
    """jemalloc opened late, by a plugin say: glibc serves malloc, and nothing is wrong."""
    source = tmp_path / "late.c"
    start = "    truth_begin(argc, argv);\n"
    opening = f'    must(dlopen("{library("jemalloc")}", RTLD_NOW));\n'
    source.write_text(BESIDE.read_text().replace(start, opening + start))
    # it has more thread-local memory than a late library may
    room = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=20000"}
    looks = Looks(str(build(tmp_path / "late", source, "gcc", f"-I{BESIDE.parent}", "-ldl")), env=room)
    assert "libc.so" in looks.truth["notes"]["malloc_is_of"]
    for where, document in looks.json("arenas"):
        assert serving(document) == [("jemalloc", False)]
        assert (document["complete"], document["problems"]) == (True, []), where
    assert all("jemalloc" in text for _, text in looks.words("arenas"))


NAMELESS = """
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void free(void *p) { __libc_free(p); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
"""


@pytest.mark.full
def test_a_library_that_nobody_knows(tmp_path: Path) -> None:
    """It has malloc, and may well hand all calls on, as this one does: that is not known, and said so."""
    (tmp_path / "some.c").write_text(NAMELESS)
    shim = build(tmp_path / "libsome.so", tmp_path / "some.c", "gcc", "-shared", "-fPIC")
    looks = Looks("beside", env={"LD_PRELOAD": str(shim)})
    for where, document in looks.json("arenas"):
        assert serving(document) == [("libsome.so", None)]
        assert document["complete"] is True, where
    assert all("libsome.so (libsome.so " in text for _, text in looks.words("arenas"))


@pytest.mark.full
def test_the_name_of_a_file_alone_says_nothing(tmp_path: Path) -> None:
    """A library of somebody's notes, called like jemalloc, and one called like PHP."""
    (tmp_path / "notes.c").write_text("int notes(void) { return 1; }\n")
    names = ("libjemalloc-notes.so", "libphp-notes.so")
    notes = [build(tmp_path / name, tmp_path / "notes.c", "gcc", "-shared", "-fPIC") for name in names]
    looks = Looks("beside", env={"LD_PRELOAD": " ".join(map(str, notes))})
    assert all(name in looks.smaps_text for name in names)
    for where, document in looks.json("version"):
        assert (serving(document), document["complete"]) == ([], True), where


@pytest.mark.full
def test_address_sanitizer(tmp_path: Path) -> None:
    # the fixture looks at the word before a block, where ASan has none of glibc's
    program = build(tmp_path / "asan", BESIDE, "gcc", "-fsanitize=address", "-fsanitize-recover=address", "-ldl")
    options = "detect_leaks=0:halt_on_error=0:disable_coredump=0"
    # GDB would write its terabytes of shadow out
    looks = Looks(str(program), env={"ASAN_OPTIONS": options}, core="kernel_core")
    assert "libasan" in looks.truth["notes"]["malloc_is_of"]
    check_replaced(looks, "AddressSanitizer", "libasan")
