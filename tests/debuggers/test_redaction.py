"""arenascope save --redact: of what a program can hide anywhere in its memory, no word is in the file."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Mapping, Optional

import pytest
from doors import DOORS, Core
from marks import full_after, in_full
from platforms import ELSEWHERE, HOST, Platform
from secret_bytes import leaked, libraries_of, present, secrets_of
from subjects import Subject
from test_save import said, shell, without_symbols

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
        assert shell("save", subject.pid, folder / "whole").returncode == 0
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
        done = shell("save", redacted, image, "--redact", "--json")
        assert done.returncode == 0, done.stderr
        whole = Path(str(image))
        if source == "live":
            whole = tmp_path / "whole"
            assert shell("save", whole, image).returncode == 0
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
        done = shell("save", redacted, image, "--redact")
        assert done.returncode == 0, done.stderr
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
            done = shell("save", redacted, image, "--redact")
            assert done.returncode == 0, done.stderr
            assert sorted(leaked(redacted, secrets, platform.pointer_bytes, libraries)) == []
            (arenas,) = DOORS["shell"].run(Core(redacted, subject.program), ["arenas --json"])
            assert arenas.json()["arenas"]
