"""Every command there is, through each door that `make test` opens, of each kind of image: it answers, says that it is
complete, and says the same through all of them. That the figures are true is for the other tests to show.
"""

from __future__ import annotations

import gc
import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from documents import common
from doors import DOORS, NEWEST, Core, Image, Live
from looks import opened
from marks import full_after
from scenarios import IMAGES
from subjects import Subject
from test_split_blocks import WAYS

from arenascope import engine
from arenascope.commands.framework.find_command import COMMAND_NAMES, all_commands

SOON = {("shell", "live"), ("shell", "kernel"), (NEWEST[0], "live"), (NEWEST[1], "kernel")}
"""Each door, and each debugger beside the shell; `make test-all` has each door of each image."""
LOOKS = [
    pytest.param(door, image, marks=[] if (door, image) in SOON else pytest.mark.full)
    for image in IMAGES
    for door in NEWEST
]
MOMENT = ("snapshot", "save", "diff", "trend", "version")
"""Commands that say when they looked, or who does."""

NEED_THE_ENGINE = ("types", "owners", "owner", "refs", "leaks", "containers", "pins", "waste")


def words_of(command: str, subject: Subject, folder: Path) -> list[str]:
    """The command as it is typed: one that calls for more than options has it here."""
    more = {
        "chunk": [hex(next(iter(subject.live_blocks)))],
        "refs": [hex(next(iter(subject.live_blocks)))],
        "owner": [hex(next(iter(subject.live_blocks)))],
        "chunks": ["--limit", "50"],
        "snapshot": [str(folder / "now.json")],
        "save": [str(folder / "saved.core")],
        "diff": [str(folder / "before.json")],
        "trend": [str(folder)],
    }
    return [command, *more.get(command, ())]


@pytest.fixture(scope="module")
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], dict[str, Any]]:
    """What was answered through each door of each image that this run's tests ask for, of one process."""
    asked = {
        (item.callspec.params["door"], item.callspec.params["image"])
        for item in request.session.items
        if item.path == request.path and "image" in getattr(getattr(item, "callspec", None), "params", ())
    }
    kinds = [kind for kind in IMAGES if kind in {image for _, image in asked}]
    folder, found = tmp_path_factory.mktemp("commands"), {}
    with Subject("bins", guard_regions=False) as subject:
        lines = [" ".join(words_of(command.name, subject, folder)) for command in all_commands()]
        DOORS["shell"].run(Live(subject.pid, subject.program), [f"snapshot {folder / 'before.json'}"])
        images: dict[str, Image] = {"live": Live(subject.pid, subject.program)}
        for kind in kinds:
            if kind != "live":
                path = subject.gcore() if kind == "gcore" else subject.kernel_core()
                images[kind] = Core(path, subject.program)
            for at, name in enumerate(NEWEST):
                # the others are held to the shell's
                if name != "shell" and (name, kind) not in asked:
                    continue
                door = opened(DOORS[name])
                # as text, too, through each debugger; the shell's is that of test_width
                texts = lines if name != "shell" and kind == kinds[at % len(kinds)] else ()
                said = door.run(images[kind], [*texts, *(f"{line} --json" for line in lines)])
                answers = zip_longest(lines, said[: len(texts)], said[len(texts) :])
                found[name, kind] = {line.split()[0]: (text, document) for line, text, document in answers}
    return found


@pytest.mark.xdist_group("every command")
@pytest.mark.parametrize(("door", "image"), LOOKS)
def test_every_command_answers(told: dict[tuple[str, str], dict[str, Any]], door: str, image: str) -> None:
    answers, shell = told[door, image], told["shell", image]
    assert list(answers) == [command.name for command in all_commands()]
    for name, (text, document) in answers.items():
        if text is not None:
            assert text.error is None, f"{name}: {text.error}"
            assert text.text.endswith("\n"), name
        assert document.json()["command"] == name
        assert (document.json()["complete"], document.json()["problems"]) == (True, []), name
        if name not in MOMENT:
            assert common(document.json()) == common(shell[name][1].json()), name


@pytest.mark.xdist_group("every command")
@pytest.mark.parametrize("door", full_after(1, NEWEST))
def test_what_reads_mallocs_structures_needs_no_engine(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain Python says of a process and of its core what is said with the engine."""
    with Subject("bins", guard_regions=False) as subject:
        names = [command.name for command in all_commands() if command.name not in NEED_THE_ENGINE]
        opened(DOORS["shell"]).run(Live(subject.pid, subject.program), [f"snapshot {tmp_path / 'before.json'}"])
        lines = [f"{' '.join(words_of(name, subject, tmp_path))} --json" for name in names]
        plain = lines[names.index("report")]
        lines[names.index("report")] = f"{plain} --quick"
        core = Core(subject.gcore(), subject.program)
        expected = DOORS[door].run(core, lines)
        monkeypatch.setenv("ARENASCOPE_ENGINE", "none")
        # the shell's is that of this process, which frees before what it has made
        gc.collect()
        engine._library.cache_clear()
        for document in DOORS[door].run(Live(subject.pid, subject.program), [*lines, plain]):
            assert (document.json()["complete"], document.json()["problems"]) == (True, [])
        for name, document, other in zip(names, DOORS[door].run(core, lines), expected):
            if name not in MOMENT:
                assert untyped(common(document.json())) == untyped(common(other.json())), name


def untyped(document: dict[str, Any]) -> dict[str, Any]:
    """Without the type of a block, which what points to it may tell."""
    block = document.get("chunk") or {}
    return {**document, "chunk": {key: block[key] for key in block if key not in ("type", "kind", "certain", "how")}}


OURS = re.compile(rf"\b(heap|arenascope) (?:{'|'.join(COMMAND_NAMES)})\b( \S+)?")


@pytest.mark.xdist_group("every command")
@pytest.mark.parametrize(("door", "image"), LOOKS)
def test_advice_is_what_is_typed_there(told: dict[tuple[str, str], dict[str, Any]], door: str, image: str) -> None:
    document = told[door, image]["report"][1].json()
    typed = [each for advice in document["advice"] for how in advice["how"] for each in OURS.findall(how)]
    assert typed
    program, subject = ("arenascope", r" (\d+|\S+core\S*|PID|LATER)") if door == "shell" else ("heap", r"( (?!\d).*)?")
    for each, after in typed:
        assert each == program
        assert re.fullmatch(subject, after), after


@pytest.mark.parametrize("door", full_after(1, NEWEST))
def test_nothing_becomes_resident(door: str, tmp_path: Path) -> None:
    """Against smaps: memory that the process shares with others and has not touched is among this one's, close to what
    is read as well: of four blocks beside each other three at least are so near to it as to be read at once."""
    with Subject("split", *["near"] * 4, *WAYS, guard_regions=False) as subject:
        lines = [" ".join(words_of(command.name, subject, tmp_path)) for command in all_commands()]
        before = own(subject)
        assert 0 in before.values()
        for outcome in opened(DOORS[door]).run(Live(subject.pid, subject.program), lines):
            assert outcome.error is None or "before.json" in outcome.error
        assert own(subject) == before


def own(subject: Subject) -> dict[tuple[int, int], int]:
    """What is resident of all mappings but libraries' and the vDSO: of these a debugger itself reads."""
    rows = Path(f"/proc/{subject.pid}/maps").read_text().splitlines()
    code = {int(row.split("-")[0], 16) for row in rows if ("/" in row and " rw-s " not in row) or "[v" in row}
    return {place: size for place, size in subject.smaps().items() if place[0] not in code}
