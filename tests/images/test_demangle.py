"""Readable names of C++ and Rust, against binutils."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Sequence

import pytest
from looks import needs
from subjects import Subject

from arenascope.engine import demangled


def mangled() -> set[str]:
    """What libstdc++ and the fixture have."""
    with Subject("kinds") as subject:
        paths = {line.split()[5] for line in Path(f"/proc/{subject.pid}/maps").read_text().splitlines() if "/" in line}
    return {each for path in paths for each in symbols(path) if each.startswith("_Z")}


def symbols(path: str) -> set[str]:
    names = set()
    for table in ("-a", "-D"):
        listed = subprocess.run(["nm", table, path], text=True, capture_output=True, check=False).stdout
        names |= {line.split()[-1].partition("@")[0] for line in listed.splitlines() if line}
    return names


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
    ours = {name: demangled(name) for name in asked}
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
    """And variables. What templates return is not said, nor what packs of parameters are, and what constructors that
    are templates take."""
    asked = sorted(name for name in mangled() if not name.startswith(("_ZT", "_ZG")))
    wrong, same = {}, 0
    for name, text in zip(asked, by_binutils(asked)):
        text, ours = text.replace("> >", ">>").replace("> >", ">>"), demangled(name)
        # streams and strings of char, which it spells out
        if re.search("basic_(string|[io]+stream)", text):
            continue
        same += ours != name
        # what is returned stands in front, and around where it is a pointer to a function
        is_right = ours in (text, name) or text.endswith(f" {ours}") or f"*{ours})(" in text
        if not is_right and f" {ours}(" not in f" {text}":
            wrong[name] = (ours, text)
    # what the crate makes of references to a member's type
    assert 1000 * len(wrong) < same
    assert same > len(asked) // 2 > 1000


RUST = Path(__file__).with_name("demangle.rs").read_text()


@pytest.mark.full
def test_rusts_names_are_those_of_binutils(tmp_path: Path) -> None:
    """Which says of each crate by what it is told from others of its name, and of constants their types."""
    needs("rustc")
    (tmp_path / "names.rs").write_text(RUST)
    made = ["rustc", "-C", "symbol-mangling-version=v0", "-o", tmp_path / "names", tmp_path / "names.rs"]
    subprocess.run(made, check=True, capture_output=True)
    asked = sorted(each for each in symbols(str(tmp_path / "names")) if each.startswith("_R"))
    without = re.compile(r"(?<=\w)\[[0-9a-f]{1,16}\]|: (bool|char|[iu]\d+|[iu]size)\b")
    theirs = [without.sub("", text) for text in by_binutils(asked)]
    ours = [demangled(name) for name in asked]
    assert len(asked) > 500
    assert ours == theirs
    assert {"names::größe::straße", "names::generic::<(u8, &str), true, 'q', -4>", "names::CACHE"} <= set(ours)


OLDER = {
    "_ZN4core3ptr13drop_in_place17h8a3f0b1c2d4e5f60E": "core::ptr::drop_in_place",
    "_ZN3std2rt10lang_start28_$u7b$$u7b$closure$u7d$$u7d$17he9b1bd0085d1beacE.llvm.7903978327441595542": (
        "std::rt::lang_start::{{closure}}"
    ),
    "_ZN42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h3452fda0e7907ccaE": "<&T as core::fmt::Debug>::fmt",
    "_ZN5alloc5boxed16Box$LT$T$C$A$GT$3new17h0123456789abcdefE": "alloc::boxed::Box<T,A>::new",
    "_ZN1h13gr$uf6$$udf$e10stra$udf$e17hd8398bb62cd6fae9E": "h::größe::straße",
}
"""In the legacy mangling, which rustc used by default until 2025."""


def test_rusts_older_names_are_those_of_binutils() -> None:
    """Which leaves the hash at the end, and what is not ASCII as it is."""
    assert {name: demangled(name) for name in OLDER} == OLDER
    plain = [name for name in OLDER if "größe" not in OLDER[name]]
    assert [re.sub(r"::h[0-9a-f]{16}$", "", each) for each in by_binutils(plain)] == [OLDER[each] for each in plain]


def test_names_that_are_nearly_rusts_stay_as_they_are() -> None:
    # steps that end elsewhere; a path that leads on; a pattern
    for name in ("_ZN9shortened17h0123456789abcdefE$", "_RNvC1a1", "_RNvC1aB9_", "_R", "_RINvC1a1bWE", "_RNvC1a1b9"):
        assert demangled(name) == name


def test_a_name_that_doubles_itself_ends_soon() -> None:
    text, last = "IC1a", 4
    text += "TuuE"
    for _ in range(40):
        place = "".join(RUST_DIGITS[digit] for digit in ((last - 1) // 62, (last - 1) % 62)).lstrip("0") or "0"
        last, text = len(text), f"{text}TB{place}_B{place}_E"
    begun = time.process_time()
    assert demangled(f"_R{text}E") == f"_R{text}E"
    assert time.process_time() - begun < 2


RUST_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
