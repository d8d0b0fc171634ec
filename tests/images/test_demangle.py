"""Readable names of C++, against binutils."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Sequence

from subjects import Subject

from arenascope.sources.elf.demangle import demangle


def mangled() -> set[str]:
    """What libstdc++ and the fixture have."""
    with Subject("kinds") as subject:
        paths = {line.split()[5] for line in Path(f"/proc/{subject.pid}/maps").read_text().splitlines() if "/" in line}
    names = set()
    for path in paths:
        for table in ("-a", "-D"):
            listed = subprocess.run(["nm", table, path], text=True, capture_output=True, check=False).stdout
            names |= {line.split()[-1].partition("@")[0] for line in listed.splitlines() if line}
    return {each for each in names if each.startswith("_Z")}


def by_binutils(asked: Sequence[str]) -> list[str]:
    return subprocess.run(
        ["c++filt"], input="\n".join(asked), text=True, capture_output=True, check=True
    ).stdout.splitlines()


def test_names_are_those_of_binutils() -> None:
    """Of every class."""
    asked = sorted(name for name in mangled() if name.startswith(("_ZTV", "_ZTI", "_ZTS")))
    # it spells these out, writes brackets as C++98 had to, and knows types that are no class's
    plain = {
        "basic_ostream<char, std::char_traits<char> >": "ostream",
        "basic_istream<char, std::char_traits<char> >": "istream",
    }
    plain["basic_iostream<char, std::char_traits<char> >"] = "iostream"
    ours = {name: demangle(name) for name in asked}
    theirs = {}
    for name, text in zip(asked, by_binutils(asked)):
        for long, short in plain.items():
            text = text.replace(long, short) if len(name) < 8 else text
        theirs[name] = text.replace("> >", ">>").replace("> >", ">>")
    wrong = {name: (ours[name], theirs[name]) for name in asked if ours[name] not in (theirs[name], name)}
    assert len(asked) > 500
    assert not wrong
    assert sum(ours[name] == name for name in asked) < len(asked) // 50


def test_functions_are_called_as_by_binutils() -> None:
    """And variables. What templates return is not said."""
    asked = sorted(name for name in mangled() if not name.startswith(("_ZT", "_ZG")))
    wrong, same = {}, 0
    for name, text in zip(asked, by_binutils(asked)):
        text, ours = text.replace("> >", ">>").replace("> >", ">>"), demangle(name)
        # streams and strings of char, which it spells out
        if re.search("basic_(string|[io]+stream)", text):
            continue
        same += ours != name
        # what is returned stands in front, and around where it is a pointer to a function
        if ours not in (text, name) and not text.endswith(f" {ours}") and f"*{ours})(" not in text:
            wrong[name] = (ours, text)
    assert not wrong
    assert same > len(asked) // 2 > 1000
