"""arenascope save --redact: of what a program can hide anywhere in its memory, no word is in the file."""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

import pytest
from doors import DOORS, Core
from marks import full_after, in_full
from platforms import ELSEWHERE, HOST, Platform
from shell_door import arenascope
from subjects import PAGE, Subject
from test_save import said, without_symbols

from arenascope.base.errors import MemoryReadError
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.elf.elf_file import OWN

GROUP = re.compile(rb"~[A-Z][a-z][GHIJ]")
"""Four bytes of a secret, as the fixture makes them."""
PIECE = 8


class Secret(NamedTuple):
    kind: str
    text: bytes
    address: int
    """Of one of them; 0 where no address tells."""
    bytes: int

    def pieces(self, size: int) -> set[bytes]:
        """What any so many bytes of it can be: it is repeated without end."""
        if len(self.text) <= size:
            return {self.text}
        return {(2 * self.text)[at : at + size] for at in range(len(self.text))}

    @property
    def groups(self) -> list[bytes]:
        return [self.text[at : at + 4] for at in range(0, len(self.text), 4)]


def secrets_of(subject: Subject) -> list[Secret]:
    rows = [line.split() for line in (subject.folder / "truth" / "secrets.txt").read_text().splitlines()]
    return [Secret(row[0], bytes.fromhex(row[1]), int(row[2], 16), int(row[3])) for row in rows]


def libraries_of(subject: Subject) -> bytes:
    """libc and its loader as they stand on the disk: their bytes are everybody's."""
    maps = Path(f"/proc/{subject.pid}/maps").read_text()
    paths = set(re.findall(r" (/\S*/(?:libc\.so|ld-linux|libc-2|ld-2)\S*)$", maps, re.MULTILINE))
    assert paths
    return b"".join(Path(path).read_bytes() for path in sorted(paths))


def unpacked_notes(file: Path) -> bytes:
    """What `save` says in notes of its own, which it compresses."""
    with CoreImage(str(file)) as core:
        notes = [bytes(each.data) for each in core.all_notes() if each.owner == OWN]
    return b"\0".join(_unpacked(each) for each in notes)


def _unpacked(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return data


def present(file: Path, secrets: Iterable[Secret], word: int) -> set[str]:
    """The kinds that a whole file has, where the fixture says that they lie."""
    size = min(PIECE, 2 * word)
    data, notes = file.read_bytes(), unpacked_notes(file)
    found = set()
    with CoreImage(str(file)) as core:
        for each in secrets:
            if each.address:
                try:
                    there = core.read(each.address, each.bytes)
                except MemoryReadError:
                    continue
            else:
                there = data + notes
            # where no address tells, a word in a register or a variable
            here = any(piece in there for piece in each.pieces(min(size, each.bytes or word)))
            if here or (not each.address and _in_numbers(each, notes)):
                found.add(each.kind)
    return found


def _in_numbers(secret: Secret, notes: bytes) -> bool:
    """As JSON has a word: in decimal digits."""
    return any(
        str(int.from_bytes(piece, "little")).encode() in notes for size in (4, 8) for piece in secret.pieces(size)
    )


def leaked(file: Path, secrets: Iterable[Secret], word: int, libraries: bytes) -> set[str]:
    """The kinds of which a redacted file has a piece anywhere."""
    secrets = list(secrets)
    notes = unpacked_notes(file)
    found = {each.kind for each in secrets if _in_numbers(each, notes)}
    found |= leaked_in(notes, secrets, PIECE, libraries)
    return found | leaked_in(b"".join(_pages(file)), secrets, word, libraries)


def leaked_in(data: bytes, secrets: Sequence[Secret], word: int, libraries: bytes) -> set[str]:
    """Whose pieces stand in what has words of this size at multiples of it."""
    by_group = {group: each for each in secrets for group in each.groups}
    found = set()
    for match in GROUP.finditer(data):
        each = by_group.get(match[0])
        near = data[max(0, match.start() - PIECE) : match.end() + PIECE]
        if each is None:
            continue
        whole = any(piece in near for piece in each.pieces(PIECE))
        if whole or (word == 4 and not match.start() % 4 and match[0] not in libraries):
            found.add(each.kind)
    for each in secrets:
        if not GROUP.match(each.text):
            # digits, and what the kernel threw
            pieces = set(each.groups) if word == 4 else each.pieces(min(2 * PIECE, len(each.text)))
            found |= {each.kind for piece in pieces if _has(data, piece) and piece not in libraries}
    return found


def _has(data: bytes, piece: bytes) -> bool:
    """Of a word only where a word can stand: four bytes that nobody chose may come about between two."""
    at = data.find(piece)
    while at >= 0 and len(piece) == 4 and at % 4:
        at = data.find(piece, at + 1)
    return at >= 0


def _pages(file: Path) -> Iterator[bytes]:
    """Those that are not all zero, each at a multiple of its size."""
    zeros = bytes(PAGE)
    with file.open("rb") as data:
        size = os.fstat(data.fileno()).st_size
        at = 0
        while at < size:
            try:
                at = os.lseek(data.fileno(), at, os.SEEK_DATA) // PAGE * PAGE
            except OSError:
                return
            page = os.pread(data.fileno(), PAGE, at)
            if page != zeros[: len(page)]:
                yield page.ljust(PAGE, b"\0")
            at += PAGE


I386 = next(each for each in ELSEWHERE if each.id == "i386")
WIDTHS = [pytest.param(HOST, id="64"), pytest.param(I386, id="32", marks=pytest.mark.full)]
OTHERS = [pytest.param(each, id=each.id, marks=pytest.mark.full) for each in ELSEWHERE if each != I386]
LOOKS = ("arenas", "trim --ranges", "bins", "heaps", "check", "threads", "chunks --summary", "mmapped")
EVERYTHING = 0x7F
"""coredump_filter: what files have, too."""
NOT_THERE = {
    # a signal carries it, by which the kernel's core is made
    "live": {"signal-value"},
    "saved": {"signal-value"},
    # of what the kernel was given to keep
    "gcore": {"signal-value", "timer-value", "epoll-data"},
    "kernel": {"timer-value", "epoll-data"},
}
DAMAGES = ("size", "header", "many", "in-use-bit", "links", "skips", "foot", "cache", "cache-size", "top", "heap-info")
DAMAGES = (*DAMAGES, "arena", "arena-end", "mmapped")


def secrets_running(platform: Platform, *arguments: str, env: Optional[Mapping[str, str]] = None) -> Subject:
    return Subject("secrets", *arguments, platform=platform, coredump_filter=EVERYTHING, env=env)


def image_of(subject: Subject, source: str, folder: Path) -> object:
    """What is redacted."""
    if source == "live":
        return subject.pid
    if source == "saved":
        arenascope("save", subject.pid, folder / "whole")
        return folder / "whole"
    if source == "gcore":
        return subject.gcore()
    subject.send("tick")
    return subject.kernel_core()


def answers(file: object, program: Path) -> list[dict[str, Any]]:
    looks = [f"{command} --json" for command in LOOKS]
    return [without_symbols(said(each.json())) for each in DOORS["shell"].run(Core(Path(str(file)), program), looks)]


@pytest.mark.parametrize("source", ["live", *in_full("saved", "gcore", "kernel")])
@pytest.mark.parametrize("platform", [*WIDTHS, *OTHERS])
def test_no_word_of_a_secret_is_left(platform: Platform, source: str, tmp_path: Path) -> None:
    redacted = tmp_path / "redacted"
    with secrets_running(platform) as subject:
        secrets, libraries = secrets_of(subject), libraries_of(subject)
        image = image_of(subject, source, tmp_path)
        done = arenascope("save", redacted, image, "--redact", "--json")
        whole = Path(str(image))
        if source == "live":
            whole = tmp_path / "whole"
            arenascope("save", whole, image)
        kinds = {each.kind for each in secrets} - NOT_THERE[source]
        assert sorted(kinds - present(whole, secrets, platform.pointer_bytes)) == []
        assert len(kinds) >= 58
        assert json.loads(done.stdout)["redacted"] is True
        assert sorted(leaked(redacted, secrets, platform.pointer_bytes, libraries)) == []
        for command, one, other in zip(LOOKS, answers(whole, subject.program), answers(redacted, subject.program)):
            assert one == other, command
        # zeros that lead nowhere would pass for an answer
        (types,) = DOORS["shell"].run(Core(redacted, subject.program), ["types"])
        assert "save --redact" in (types.error or "")
        page = tmp_path / "page.html"
        arenascope("report", redacted, "--html", page)
        assert sorted(leaked_in(page.read_bytes(), secrets, PIECE, libraries)) == []


@pytest.mark.full
@pytest.mark.parametrize("source", ["live", "saved", "kernel"])
def test_of_a_libc_whose_file_is_gone_nothing_is_taken_for_the_file_s(source: str, tmp_path: Path) -> None:
    redacted, folder = tmp_path / "redacted", tmp_path / "libraries"
    folder.mkdir()
    own = re.search(r" (/\S*/libc(?:\.so\.6|-2\S*\.so))$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    assert own
    shutil.copy(own[1], folder / "libc.so.6")
    with secrets_running(HOST, env={"LD_LIBRARY_PATH": str(folder)}) as subject:
        secrets, libraries = secrets_of(subject), libraries_of(subject)
        assert str(folder) in Path(f"/proc/{subject.pid}/maps").read_text()
        (folder / "libc.so.6").unlink()
        image = image_of(subject, source, tmp_path)
        arenascope("save", redacted, image, "--redact")
        if source != "live":
            assert "constants-of-libc" in present(Path(str(image)), secrets, HOST.pointer_bytes)
        assert sorted(leaked(redacted, secrets, HOST.pointer_bytes, libraries)) == []
        whole, zeroed = answers(image, subject.program), answers(redacted, subject.program)
        assert [each.get("arenas") for each in whole] == [each.get("arenas") for each in zeroed]
        # a process's own file is there as long as it runs
        assert source != "live" or whole == zeroed


@pytest.mark.parametrize("damage", full_after(1, DAMAGES))
@pytest.mark.parametrize("platform", WIDTHS)
def test_of_a_damaged_heap_only_what_is_proved_is_kept(platform: Platform, damage: str, tmp_path: Path) -> None:
    redacted = tmp_path / "redacted"
    with secrets_running(platform, "damage", damage) as subject:
        secrets, libraries = secrets_of(subject), libraries_of(subject)
        assert subject.send("tick") == "ticked"
        for source in ("live", "gcore", "kernel"):
            image = {"gcore": subject.gcore, "kernel": subject.kernel_core}.get(source, lambda: subject.pid)()
            arenascope("save", redacted, image, "--redact")
            assert sorted(leaked(redacted, secrets, platform.pointer_bytes, libraries)) == []
            (arenas,) = DOORS["shell"].run(Core(redacted, subject.program), ["arenas --json"])
            assert arenas.json()["arenas"]
