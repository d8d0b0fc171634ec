"""GDB/MI: what an editor gets from -heap-report and its like, checked against the command that people type."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Sequence

import pytest
from doors import ARENA_PY, Gdb, Live
from looks import plain_environment
from marks import in_full
from subjects import Subject

pytestmark = pytest.mark.xdist_group("mi")


@pytest.fixture(autouse=True)
def has_commands_of_its_own(gdb: Gdb) -> None:
    if gdb.start(["-ex", "python print(hasattr(gdb, 'MICommand'))"]).stdout.strip() != "True":
        pytest.skip("this GDB lets nobody add an MI command")


def lines_of(image: Sequence[str], requests: Sequence[str]) -> list[str]:
    """All that GDB says to these requests, numbered from 1 on."""
    command = ["gdb", "-nx", "-q", "--interpreter=mi3", *image, "-ex", f"source {ARENA_PY}"]
    typed = "".join(f"{number}{request}\n" for number, request in enumerate(requests, 1)) + "-gdb-exit\n"
    done = subprocess.run(command, input=typed, env=plain_environment(), capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


def talk(subject: Subject, *requests: str) -> list[str]:
    """The result records of these MI commands, in their order."""
    said = lines_of(["-p", str(subject.pid)], requests)
    return [next(line for line in said if re.match(rf"{number}\^", line)) for number in range(1, len(requests) + 1)]


ESCAPED = re.compile(r"\\([0-7]{3}|.)")
PLAIN = {"n": "\n", "t": "\t"}


def unescaped(text: str) -> str:
    """MI's string, whose bytes that are not ASCII are in octal."""
    told = ESCAPED.sub(lambda each: chr(int(each[1], 8)) if len(each[1]) == 3 else PLAIN.get(each[1], each[1]), text)
    return told.encode("latin1").decode()


def console(said: Sequence[str]) -> dict[int, str]:
    """What stands in the console before each result, by its number."""
    texts: dict[int, str] = {}
    text = ""
    for line in said:
        result = re.match(r"(\d+)\^", line)
        if result:
            texts[int(result[1])], text = unescaped(text), ""
        elif line.startswith("~"):
            assert re.fullmatch(r'~"(?:[^"\\]|\\.)*"', line), line
            text += line[2:-1]
        else:
            # nothing that is no record of MI's
            assert re.match(r"[&=*]|\(gdb\)|\^exit$", line), line
    return texts


def data_of(record: str) -> Any:
    """A result record as JSON has it."""
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|[\w-]+=|.', record.partition("^done,")[2])
    words = (
        json.dumps(unescaped(each[1:-1])) if each[0] == '"' else f'"{each[:-1]}":' if each.endswith("=") else each
        for each in pieces
    )
    return json.loads("{" + "".join(words) + "}")


def as_mi(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_mi(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [as_mi(each) for each in value]
    return json.dumps(value) if isinstance(value, bool) else str(value)


def fields(record: str, *names: str) -> Sequence[str]:
    """The first value of each of these in a record."""
    return [re.search(rf'{name}="((?:[^"\\]|\\.)*)"', record).group(1) for name in names]


def test_report_as_data(gdb: Gdb) -> None:
    with Subject("hoard", "2", "12") as subject:
        typed = gdb.run(Live(subject.pid, subject.program), ["report --json"])[0].json()
        report, arenas = talk(subject, "-heap-report", "-heap-arenas")
    assert report.startswith("1^done,")
    assert arenas.startswith("2^done,")
    rss, verdict = fields(report, "rss_bytes", "verdict")
    # a debugger's own reading brings pages of files in
    assert abs(int(rss) - typed["rss_bytes"]) <= 1 << 20
    assert verdict.startswith("RSS ")
    assert 'parts=[{part="live",bytes="' in report
    assert arenas.count("attached_threads=") == 3
    assert 'main="true"' in arenas
    assert not re.search("None|null", report + arenas)


def test_errors_are_mi_errors(gdb: Gdb) -> None:
    with Subject("bins") as subject:
        wrong, bad = talk(subject, "-heap-bins --arena 77", "-heap-trim --apply -y --nonsense")
    assert wrong.startswith("1^error,msg=")
    assert "arena 77" in wrong
    assert bad.startswith("2^error,msg=")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    with Subject("hoard", "2", "12") as subject:
        core: Path = tmp_path_factory.mktemp("mi") / "core"
        subject.gcore().rename(core)
        return [str(subject.program), str(core)]


@pytest.mark.parametrize("width", [40, *in_full(0, 200)])
def test_console_at_any_width(image: Sequence[str], width: int) -> None:
    """As VS Code's `-exec heap report` has it, and as a client that names MI's console."""
    requests = [
        f"-gdb-set width {width}",
        "heap report",
        '-interpreter-exec console "heap report"',
        "heap arenas --json",
        "heap arenas",
        "-heap-arenas",
        "-heap-report",
        "heap report --json",
        "heap arenaz",
    ]
    said = lines_of(image, requests)
    texts = console(said)
    assert len(texts) == len(requests)
    # GDB echoes what is no MI command in the log alone
    assert texts[2] == texts[3]
    assert texts[2].rstrip().splitlines()[-1].strip() != ""
    assert "next: " in texts[2]
    records = {number: next(line for line in said if line.startswith(f"{number}^")) for number in (6, 7, 9)}
    assert data_of(records[6]) == as_mi(json.loads(texts[4]))
    assert data_of(records[7]) == as_mi(json.loads(texts[8]))
    assert re.search(r"\barenas\b", records[9])
    longest = max(len(line) for text in (texts[2], texts[5]) for line in text.splitlines())
    assert longest <= (width or 200)
    assert ("left out" in texts[5]) == (width == 40)
    assert "\x1b" not in "".join(texts.values())
    figures = {each["system_bytes"] for each in json.loads(texts[4])["arenas"]}
    assert all(f"{each / 1024:.1f} KiB" in texts[5] for each in figures if each < 1 << 20)
