"""Programs whose debug information was made to take long end no look, and cost it little: nested, endless, enormous or
damaged types. Debuggers ask the same engine.

Each is a small C or C++ program whose variable `root` leads to a block of such a type; that of DAMAGED is written as
DWARF, by the assembler, as no compiler would write it.
"""

from __future__ import annotations

import json
import resource
import subprocess
from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

import pytest
from marks import in_full
from shell_door import arenascope
from subjects import Subject

SECONDS = 10
"""Of the processor."""
BODY = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
DECLARATIONS
int main(void) {
    void **blocks[20];
    /* of what is declared nowhere but in DWARF by hand it is 1 */
    size_t size = sizeof *root == 1 ? 64 : sizeof *root > 1 << 20 ? 4000 : sizeof *root;
    for (int number = 0; number < 20; number++)
        blocks[number] = (void **)calloc(1, size);
    for (int number = 0; number < 20; number++)
        for (int word = 0; word < size / 8 && word < 500; word++)
            blocks[number][word] = blocks[(number * 7 + word) % 20];
    *(void **)&root = blocks[0];
    printf("ready %d\\n", (int)getpid());
    fflush(stdout);
    return getchar() == EOF && !root;
}
"""


class Program(NamedTuple):
    source: str
    language: str = "c"
    dwarf: str = ""
    """Debug information as assembler, where the compiler writes none."""

    def build(self, folder: Path, name: str) -> Path:
        program = folder / name
        source = folder / f"{name}.{self.language}"
        source.write_text(BODY.replace("DECLARATIONS", self.source))
        words = ["gcc" if self.language == "c" else "g++", "-O0", "-w", "-no-pie", "-o", program, source]
        if self.dwarf:
            assembled = folder / f"{name}.s"
            assembled.write_text(self.dwarf)
            words.append(assembled)
        else:
            words += ["-g", "-fno-eliminate-unused-debug-types", "-ftemplate-depth=5000"]
        subprocess.run(words, check=True, timeout=300)
        return program


def _c(*lines: str, root: str) -> Program:
    return Program("\n".join([*lines, f"{root} *root;"]))


def _cpp(*lines: str, root: str) -> Program:
    return Program("\n".join([*lines, f"{root} *root;"]), "cc")


def _levels(first: str, each: str, count: int) -> Iterable[str]:
    """`each` has {0} for the number of a level, {1} for the one below."""
    return [first, *(each.format(number, number - 1) for number in range(1, count + 1))]


def _listed(each: str, count: int) -> str:
    return " ".join(each.format(number) for number in range(count))


COMPILED = {
    "nested-by-8": lambda: _c(
        *_levels("struct A0 { void *p; };", "struct A{0} {{ struct A{1} a, b, c, d, e, f, g, h; }};", 18),
        root="struct A18",
    ),
    "nested-100000": lambda: _c(
        *_levels("struct A0 { void *p; };", "struct A{0} {{ struct A{1} *x; }};", 100_000), root="struct A100000"
    ),
    "dimensions": lambda: _c("struct A { void *a" + "[2]" * 55 + "; };", root="struct A"),
    "array-of-terabytes": lambda: _c("struct A { void *first; void *all[1UL << 40]; };", root="struct A"),
    "arrays-of-arrays": lambda: _c(
        *_levels("struct A0 { void *p[1000]; };", "struct A{0} {{ struct A{1} all[100]; void *p; }};", 6),
        root="struct A6",
    ),
    "members-nested": lambda: _c(
        *_levels("struct A0 { void *p; };", "struct A{0} {{ struct A{1} x, y; }};", 10),
        "struct A { " + _listed("struct A10 m{0};", 3000) + " };",
        root="struct A",
    ),
    "long-name": lambda: _c("struct " + "A" * 1_000_000 + " { void *p; };", root="struct " + "A" * 1_000_000),
    "unions": lambda: _c(
        *_levels("union A0 { void *p; };", "union A{0} {{ union A{1} a, b; struct {{ union A{1} c, d; }} e; }};", 25),
        root="union A25",
    ),
    "functions": lambda: _c(
        *_levels("typedef void (*F0)(void);", "typedef void (*F{0})(F{1}, F{1}, F{1});", 40),
        "struct A { F40 f; void *p; };",
        root="struct A",
    ),
    "variables": lambda: _c(
        _listed("struct V{0} {{ struct V{0} *next; void *p; }}; struct V{0} *v{0};", 10_000), root="struct V0"
    ),
    "templates-doubled": lambda: _cpp(
        "template<class T, class U> struct A { T x; U y; };",
        *_levels("using T0 = A<int, void *>;", "using T{0} = A<T{1}, T{1}>;", 13),
        root="T13",
    ),
    "maps": lambda: _cpp("#include <map>", root="std::map<int, " * 12 + "int" + ">" * 12),
    "bases-doubled": lambda: _cpp(
        *_levels(
            "struct A0 { virtual ~A0(); void *p; };",
            "struct L{0} : A{1} {{ }}; struct R{0} : A{1} {{ }}; struct A{0} : L{0}, R{0} {{ }};",
            7,
        ),
        root="A7",
    ),
}

# DWARF by hand


class Entry(NamedTuple):
    """An entry of debug information; a value is a number, a text, or a reference to a label (`&label`)."""

    tag: int
    label: str = ""
    name: str = ""
    type: str = ""
    size: int = -1
    at: int = -1
    count: int = -1
    within: Sequence[Entry] = ()


STRUCT, UNION, ARRAY, POINTER, TYPEDEF, MEMBER, BASE, CONST = 0x13, 0x17, 0x01, 0x0F, 0x16, 0x0D, 0x24, 0x26
INHERITANCE, SUBRANGE, FUNCTION, PARAMETER, ENUM = 0x1C, 0x21, 0x15, 0x05, 0x04
NAME, SIZE, PLACE, TYPE, UPPER = 0x03, 0x0B, 0x38, 0x49, 0x2F
LONG = Entry(BASE, "long", "long", size=8)


def _struct(label: str, *members: Entry, size: int = 64, tag: int = STRUCT) -> Entry:
    return Entry(tag, label, label, size=size, within=members)


def _member(name: str, type: str, at: int = 0) -> Entry:
    return Entry(MEMBER, name=name, type=type, at=at)


def _dwarf(*entries: Entry) -> Program:
    """The first is what `root` leads to."""
    abbreviations: list[str] = []
    lines: list[str] = []
    number = 3

    def put(entry: Entry) -> None:
        nonlocal number
        number += 1
        attributes = []
        lines.extend(([f".L{entry.label}:"] if entry.label else []) + [f".uleb128 {number}"])
        for attribute, form, value, text in (
            (NAME, 0x08, entry.name, f'.string "{entry.name}"'),
            (TYPE, 0x13, entry.type, f".long .L{entry.type}-.Lunit"),
            (SIZE, 0x07, entry.size + 1, f".quad {entry.size}"),
            (PLACE, 0x07, entry.at + 1, f".quad {entry.at}"),
            (UPPER, 0x07, entry.count + 1, f".quad {entry.count - 1}"),
        ):
            if value:
                attributes += [attribute, form]
                lines.append(text)
        words = [number, entry.tag]
        listed = ", ".join(map(str, words))
        abbreviations.append(f".uleb128 {listed}\n.byte {int(bool(entry.within))}")
        abbreviations.append(f".uleb128 {', '.join(map(str, [*attributes, 0, 0]))}")
        for each in entry.within:
            put(each)
        if entry.within:
            lines.append(".byte 0")

    for entry in (Entry(POINTER, "pointer", type=entries[0].label, size=8), LONG, *entries):
        put(entry)
    dwarf = "\n".join(
        [
            '.section .debug_abbrev,"",@progbits',
            # the unit, with name, language, and where its code is; main; root
            ".uleb128 1, 0x11\n.byte 1\n.uleb128 0x25, 0x08, 0x03, 0x08, 0x13, 0x0b, 0x11, 0x01, 0x12, 0x07, 0, 0",
            ".uleb128 2, 0x2e\n.byte 0\n.uleb128 0x03, 0x08, 0x3f, 0x19, 0x11, 0x01, 0x12, 0x07, 0, 0",
            ".uleb128 3, 0x34\n.byte 0\n.uleb128 0x03, 0x08, 0x49, 0x13, 0x3f, 0x19, 0x02, 0x18, 0, 0",
            *abbreviations,
            ".byte 0",
            '.section .debug_info,"",@progbits',
            ".Lunit: .long .Lend-.Lbegin\n.Lbegin: .short 4\n.long 0\n.byte 8",
            '.uleb128 1\n.string "GNU C17"\n.string "hostile.c"\n.byte 12\n.quad main\n.quad 400',
            '.uleb128 2\n.string "main"\n.quad main\n.quad 400',
            '.uleb128 3\n.string "root"\n.long .Lpointer-.Lunit\n.byte 9, 3\n.quad root',
            *lines,
            ".byte 0\n.Lend:",
            '.section .debug_aranges,"",@progbits',
            ".long .Lranges-.Laranges\n.Laranges: .short 2\n.long 0\n.byte 8, 0\n.long 0",
            ".quad main, 400, 0, 0\n.Lranges:",
            '.section .note.GNU-stack,"",@progbits\n',
        ]
    )
    return Program("void *root;", dwarf=dwarf)


DAMAGED = {
    "typedefs-in-a-circle": lambda: _dwarf(
        _struct("s", _member("p", "a"), _member("q", "c", 8)),
        Entry(TYPEDEF, "a", "a", type="b"),
        Entry(TYPEDEF, "b", "b", type="c"),
        Entry(CONST, "c", type="a"),
    ),
    "struct-of-itself": lambda: _dwarf(_struct("a", _member("x", "a"), _member("y", "a", 8))),
    "unions-of-each-other": lambda: _dwarf(
        _struct("a", _member("x", "b"), _member("y", "b"), tag=UNION),
        _struct("b", _member("x", "a"), _member("y", "a"), tag=UNION),
    ),
    "nested-of-no-size": lambda: _dwarf(
        *(_struct(f"a{level}", *[_member("x", f"a{level - 1}")] * 2, size=0) for level in range(300, 0, -1)),
        _struct("a0", _member("p", "pointer"), size=0),
    ),
    "array-of-all-memory": lambda: _dwarf(
        _struct("a", _member("x", "b"), size=(1 << 63) - 1),
        Entry(ARRAY, "b", type="long", within=[Entry(SUBRANGE, type="long", count=(1 << 63) - 1)] * 3),
    ),
    "pointer-to-itself": lambda: _dwarf(Entry(POINTER, "a", type="a", size=8)),
    "base-of-itself": lambda: _dwarf(
        _struct("a", Entry(INHERITANCE, type="a", at=0), Entry(INHERITANCE, type="a", at=8))
    ),
    "functions-without-names": lambda: _dwarf(
        _struct("a", _member("x", "p30")),
        Entry(POINTER, "p0", type="long", size=8),
        *(
            each
            for level in range(1, 31)
            for each in (
                Entry(POINTER, f"p{level}", type=f"f{level}", size=8),
                Entry(FUNCTION, f"f{level}", within=[Entry(PARAMETER, type=f"p{level - 1}")] * 3),
            )
        ),
    ),
    "members-outside": lambda: _dwarf(
        _struct("a", *(_member(f"m{at}", "a", at << 58) for at in range(30)), _member("n", "long", (1 << 63) - 1))
    ),
}
PROGRAMS = {**COMPILED, **DAMAGED}

SHORT = ("unions", "typedefs-in-a-circle", "functions-without-names")
"""`make test` has these, `make test-all` each."""


def limit_processor() -> None:
    """Of each process; the kernel kills who takes more."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


@pytest.mark.parametrize("name", [*SHORT, *in_full(*(name for name in PROGRAMS if name not in SHORT))])
def test_it_ends_soon(name: str, tmp_path: Path) -> None:
    with Subject(str(PROGRAMS[name]().build(tmp_path, name))) as subject:
        for command in ("types", "containers", "waste", "owners"):
            done = arenascope(command, subject.pid, "--json", preexec_fn=limit_processor)
            assert json.loads(done.stdout)["complete"]
