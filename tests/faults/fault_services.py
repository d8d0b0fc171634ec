"""The services of fixtures/faults: what each says of its fault, what malloc says of it, and what arenascope does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence

from shell_door import ask
from subjects import Started

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
SOURCES = FIXTURES / "faults"
PYTHON = "/usr/bin/python3"
COMPILERS = {".c": "gcc", ".cc": "g++", ".rs": "rustc", ".py": PYTHON}
LEVELS = ("O1", "O2")
COMMANDS = ("report", "waste", "types", "owners", "containers", "leaks")
NEAR = 0.05
"""Bytes are right that differ by no more."""
ACCUSED = 0.05
"""Of the memory in use: more than this, and a service without a fault is accused wrongly."""
NOBODY_ASKS = 1 << 16
"""So few bytes are no accusation, however small the service is."""
PROSE = {"text", "label", "how", "verdict", "evidence", "action", "cost", "not_when"}
"""Keys of what is written for people: a name in there is no name that a script finds."""
ALSO = {
    # the copies that are captured are equal
    "scheduler": {"duplicates"},
}
"""Reasons that are as right as the service's own."""
REASONS = {
    "captured",
    "cycle",
    "destroyed-kept",
    "duplicates",
    "emptied",
    "lost",
    "node-overhead",
    "pinned-free",
    "rounding",
    "tiny-containers",
    "unbounded",
    "unlisted",
    "unused-room",
}


def sources() -> dict[str, Path]:
    """Of each service, by its name."""
    found = (each for each in SOURCES.iterdir() if each.suffix in COMPILERS and each.stem != "service")
    return {each.stem: each for each in sorted(found)}


def builds(name: str) -> Sequence[str]:
    """The levels at which a service is built; "" is one that runs from its source."""
    return ("",) if sources()[name].suffix == ".py" else LEVELS


def wanting(name: str) -> Optional[str]:
    """What is not installed that this service needs."""
    compiler = COMPILERS[sources()[name].suffix]
    return None if shutil.which(compiler) else compiler


def program(name: str, level: str) -> list[str]:
    """The words that start it, once it is built."""
    source = sources()[name]
    if source.suffix == ".py":
        return [PYTHON, str(source)]
    target = f"build/faults/{name}.{level}"
    subprocess.run(["make", "-s", "-C", str(FIXTURES), target], check=True, stdout=subprocess.DEVNULL)
    return [str(FIXTURES / target)]


class Truth(NamedTuple):
    """What a service says, as fixtures/README.md describes it."""

    service: str
    reason: Optional[str]
    path: Optional[str]
    type: Optional[str]
    measure: str
    count: int
    bytes: int
    counters: Mapping[str, int]


class Sums(NamedTuple):
    """Of malloc_info."""

    used: int
    free: int

    def of(self, measure: str) -> int:
        return {"in use": self.used, "free": self.free}[measure]


class Service(Started):
    """One that runs and waits."""

    def __init__(self, name: str, level: str = "O2", mended: bool = False) -> None:
        super().__init__(*program(name, level), *(["mended"] if mended else []))
        said = json.loads(self.said)
        assert said.pop("pid") == self.pid
        self.truth = Truth(**said)
        assert self.truth.service == name

    def sums(self) -> Sums:
        """By malloc_info, called inside of it."""
        lines = [self.send("info")]
        while lines[-1] != "</malloc>":
            lines.append(self.hear())
            assert lines[-1], "it ended"
        totals = "".join(lines).rpartition("</heap>")[2]

        def size(kind: str) -> int:
            found = re.search(rf'type="{kind}"[^/]*size="(\d+)"', totals)
            assert found, totals
            return int(found[1])

        free = size("fast") + size("rest")
        return Sums(size("current") - free + size("mmap"), free)


class Told(NamedTuple):
    """What one command says of a fault."""

    named: bool
    """A row has the container or the type at fault."""
    bytes: bool
    """In such a row are the bytes of the fault."""
    reason: bool
    """In such a row is the reason, too."""
    row: Optional[Mapping[str, Any]]
    """The row that says most."""

    @property
    def mark(self) -> str:
        return "".join(mark for mark, said in zip("nbr", self[:3]) if said) or "-"


class Row(NamedTuple):
    words: Sequence[str]
    figures: Sequence[int]
    """Of bytes."""
    record: Mapping[str, Any]


def asked(pid: int, command: str, *more: str) -> dict[str, Any]:
    """The document of a command; leaks ends with 1 where there are some."""
    return ask(pid, command, *more, status=(0, 1))


def told(document: Mapping[str, Any], truth: Truth) -> Told:
    best = Told(False, False, False, None)
    reasons = {truth.reason, *ALSO.get(truth.service, ())}
    for row in rows(document):
        if not any(names(word, truth) for word in row.words):
            continue
        right = any(abs(each - truth.bytes) <= NEAR * truth.bytes for each in row.figures)
        said = Told(True, right, right and not reasons.isdisjoint(row.words), row.record)
        if sum(said[:3]) > sum(best[:3]):
            best = said
    return best


def accused(document: Mapping[str, Any], used: int) -> list[Mapping[str, Any]]:
    """The rows that give a reason, and more bytes than a service without a fault may be accused of."""
    found = (row for row in rows(document) if not REASONS.isdisjoint(row.words))
    return [row.record for row in found if any(each > max(ACCUSED * used, NOBODY_ASKS) for each in row.figures)]


def rows(value: Any) -> Iterator[Row]:
    """Every record within a document."""
    if isinstance(value, list):
        for each in value:
            yield from rows(each)
    if not isinstance(value, dict):
        return
    inner = {**value.get("names", {})} if isinstance(value.get("names"), dict) else {}
    figures = {**value.get("figures", {})} if isinstance(value.get("figures"), dict) else {}
    own = {key: each for key, each in value.items() if key not in PROSE}
    words = [each for each in [*own.values(), *inner.values()] if isinstance(each, str)]
    for each in own.values():
        if isinstance(each, list):
            words += [word for word in each if isinstance(word, str)]
    counts = [each for key, each in {**own, **figures}.items() if isinstance(each, int) and _counts(key)]
    if isinstance(value.get("indirect_bytes"), int):
        counts.append(value["bytes"] + value["indirect_bytes"])
    if words:
        yield Row(words, counts, value)
    for key, each in own.items():
        if key not in ("names", "figures"):
            yield from rows(each)


def _counts(key: str) -> bool:
    """Whether a figure is of a row's own bytes: what it keeps from going back to the kernel is others'."""
    return "bytes" in key and key != "holds_back_bytes"


def names(word: str, truth: Truth) -> bool:
    """Whether this is the container at fault, or something in it; or the type."""
    return names_path(word, truth.path) or names_type(word, truth.type)


def names_path(word: str, path: Optional[str]) -> bool:
    if path is None:
        return False
    said, meant = _path(word), _path(path)
    # with its function or namespace, or without
    for each in (meant, re.sub(r"^[^.]*(?:::|\):)", "", meant)):
        if re.search(rf"(?:^|:){re.escape(each)}(?=$|\.)", said):
            return True
    return False


def names_type(word: str, type_: Optional[str]) -> bool:
    if type_ is None:
        return False
    said, meant = _type(word), _type(type_)
    if re.fullmatch(r"[\w:]+", meant) and meant != "std::string":
        # the last of it, whatever is around: T[], make_shared<T>, RcBox<T>
        return re.search(rf"(?<![\w.]){re.escape(meant.rpartition('::')[2])}(?![\w.])", said) is not None
    # std::string is an argument of much else; other containers have more arguments than a programmer writes
    return said.startswith(meant) if meant == "std::string" else meant.rstrip(">") in said


def _path(text: str) -> str:
    """Without what says that something is an element, or is behind a pointer."""
    return re.sub(r"\[[^\]]*\]", "", text.replace(" (place unknown)", "").replace("->", ".").replace(" ", "")).strip(
        "*&"
    )


def _type(text: str) -> str:
    text = re.sub(r"\b(?:struct|class|union|enum) ", "", text).replace("std::__cxx11::", "std::")
    text = re.sub(r"std::basic_string<char, std::char_traits<char>, std::allocator<char> ?>", "std::string", text)
    return re.sub(r", std::allocator<.*?(?=>$|>\[)", "", text).replace(" ", "")
