"""Demangles Rust's names: the older ones, which look like C++ ("_ZN4core3ptr17h0123456789abcdefE"), and those of the v0
mangling ("_RNvC4core3ptr", RFC 2603). Hashes and crates' disambiguators are left out.

Names with unsupported parts (patterns, constants that are structs) stay as they are.
"""

from __future__ import annotations

import re
from typing import Callable, Optional

DEEPEST, LONGEST = 64, 16 << 10
MOST_MADE = 256 << 10
"""The most letters that are composed, repeats included: each back reference can double the name."""
_OLDER = re.compile(r"_ZN(\d[A-Za-z0-9_.$]+)17h([0-9a-f]{16})E(?:\.[\w.]+)?", re.ASCII)
_LEAST_DIGITS = 5
"""The least number of different digits in a hash: a name that somebody wrote hardly has as many."""
_ESCAPED = re.compile(r"\$([A-Z]{1,2}|u[0-9a-f]{1,6})\$|\.\.?")
_ESCAPES = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}
_NEWER = re.compile(r"_R(?=[A-Z])(\w+)(?:\.[\w.]+)?", re.ASCII)
_BASIC = {
    "a": "i8",
    "b": "bool",
    "c": "char",
    "d": "f64",
    "e": "str",
    "f": "f32",
    "h": "u8",
    "i": "isize",
    "j": "usize",
    "l": "i32",
    "m": "u32",
    "n": "i128",
    "o": "u128",
    "p": "_",
    "s": "i16",
    "t": "u16",
    "u": "()",
    "v": "...",
    "x": "i64",
    "y": "u64",
    "z": "!",
}
_SIGNED, _UNSIGNED = "aislxn", "hjtmyo"
_SPECIAL = {"C": "closure", "S": "shim"}
_POINTERS = {"R": "&", "Q": "&mut ", "P": "*const ", "O": "*mut "}
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def of_rust(name: str) -> Optional[str]:
    """Returns the readable name; None if it is none of Rust's."""
    older = _OLDER.fullmatch(name)
    try:
        if older is not None and len(set(older[2])) >= _LEAST_DIGITS:
            return _older(older[1])
        newer = _NEWER.fullmatch(name)
        return _Reader(newer[1]).whole() if newer is not None else None
    except (_Unknown, IndexError, ValueError, RecursionError):
        return None


class _Unknown(Exception):
    """It is no name, or has something that is not supported here."""


def _older(text: str) -> str:
    steps, at = [], 0
    while at < len(text):
        size = re.compile(r"\d+").match(text, at)
        if size is None:
            raise _Unknown
        at = size.end() + int(size[0])
        if at > len(text):
            raise _Unknown
        step = text[size.end() : at]
        steps.append(_ESCAPED.sub(_unescaped, step[step.startswith("_$") :]))
    if any("$" in step for step in steps):
        raise _Unknown
    return "::".join(steps)


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code is None:
        return "::" if found[0] == ".." else "-"
    return chr(int(code[1:], 16)) if code[0] == "u" else _ESCAPES.get(code, found[0])


def _from_punycode(text: str) -> str:
    ascii_, _, rest = text.rpartition("_")
    return (f"{ascii_}-{rest}" if ascii_ else rest).encode().decode("punycode")


class _Reader:
    """A parser of mangled names: each method reads one thing at `at`, and returns its text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.depth = self.made = self.lifetimes = 0

    def whole(self) -> str:
        name = self.path(in_value=True)
        if self.at < len(self.text):
            self.path()  # the crate that made it of a generic one
        if self.at < len(self.text):
            raise _Unknown
        return name

    def peek(self) -> str:
        return self.text[self.at]

    def next(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def take(self, letter: str) -> bool:
        there = self.text.startswith(letter, self.at)
        self.at += there
        return there

    def until_end(self, read: Callable[[], str]) -> list[str]:
        found = []
        while not self.take("E"):
            found.append(read())
        return found

    def number(self) -> int:
        """Reads a number: _ is 0, 0_ is 1, and so on."""
        value = 0
        if self.take("_"):
            return 0
        while not self.take("_"):
            value = value * 62 + DIGITS.index(self.next())
        return value + 1

    def optional(self, mark: str) -> int:
        return self.number() + 1 if self.take(mark) else 0

    def word(self) -> str:
        encoded, start = self.take("u"), self.at
        while self.peek().isdigit():
            self.at += 1
            if self.text[start] == "0":
                break
        size = int(self.text[start : self.at])
        self.take("_")
        self.at += size
        if self.at > len(self.text):
            raise _Unknown
        word = self.text[self.at - size : self.at]
        return _from_punycode(word) if encoded else word

    def back(self, read: Callable[[], str]) -> str:
        """Reads a back reference."""
        start, place = self.at - 1, self.number()
        if place >= start:
            raise _Unknown
        after, self.at = self.at, place
        found = self.deeper(read)
        self.at = after
        return found

    def deeper(self, read: Callable[[], str]) -> str:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Unknown
        found = read()
        self.depth -= 1
        self.made += len(found)
        if self.made > MOST_MADE or len(found) > LONGEST:
            raise _Unknown
        return found

    def path(self, in_value: bool = False) -> str:
        return self.deeper(lambda: self._path(in_value))

    def _path(self, in_value: bool) -> str:
        letter = self.next()
        if letter == "C":
            self.optional("s")
            return self.word()
        if letter in "MXY":
            if letter != "Y":
                self.optional("s")
                self.path()  # where it stands
            of = self.type()
            return f"<{of}>" if letter == "M" else f"<{of} as {self.path()}>"
        if letter == "N":
            space, parent = self.next(), self.path(in_value)
            number, word = self.optional("s"), self.word()
            if not space.isupper():
                return f"{parent}::{word}" if word else parent
            return f"{parent}::{{{_SPECIAL.get(space, space)}{':' * bool(word)}{word}#{number}}}"
        if letter == "I":
            of = self.path(in_value)
            return f"{of}{'::' * in_value}<{', '.join(self.until_end(self._argument))}>"
        if letter == "B":
            return self.back(lambda: self.path(in_value))
        raise _Unknown

    def _argument(self) -> str:
        if self.take("L"):
            return self._lifetime(self.number())
        return self.constant() if self.take("K") else self.type()

    def _lifetime(self, number: int) -> str:
        if not number:
            return "'_"
        bound = self.lifetimes - number
        if bound < 0:
            raise _Unknown
        return f"'{chr(ord('a') + bound)}" if bound < 26 else f"'_{bound}"

    def _bound(self, read: Callable[[], str]) -> str:
        """Reads a binder of lifetimes, and what they apply to."""
        own = self.optional("G")
        if own > DEEPEST:
            raise _Unknown
        before, self.lifetimes = self.lifetimes, self.lifetimes + own
        names = ", ".join(self._lifetime(own - at) for at in range(own))
        found = read()
        self.lifetimes = before
        return f"for<{names}> {found}" if own else found

    def type(self) -> str:
        return self.deeper(self._type)

    def _type(self) -> str:
        letter = self.next()
        if letter in _BASIC:
            return _BASIC[letter]
        if letter in _POINTERS:
            lifetime = self.number() if letter in "RQ" and self.take("L") else 0
            mark = f"&{self._lifetime(lifetime)} {_POINTERS[letter][1:]}" if lifetime else _POINTERS[letter]
            return mark + self.type()
        if letter == "S":
            return f"[{self.type()}]"
        if letter == "A":
            return f"[{self.type()}; {self.constant()}]"
        if letter == "T":
            of = self.until_end(self.type)
            return f"({', '.join(of)}{',' * (len(of) == 1)})"
        if letter == "F":
            return self._bound(self._function)
        if letter == "D":
            bounds = self._bound(lambda: " + ".join(self.until_end(self._trait)))
            if not self.take("L"):
                raise _Unknown
            lifetime = self.number()
            return f"dyn {bounds}" + (f" + {self._lifetime(lifetime)}" if lifetime else "")
        if letter == "B":
            return self.back(self.type)
        self.at -= 1
        return self.path()

    def _function(self) -> str:
        unsafe, abi = "unsafe " * self.take("U"), ""
        if self.take("K"):
            named = "C" if self.take("C") else self.word().replace("_", "-")
            abi = f'extern "{named}" '
        parameters = ", ".join(self.until_end(self.type))
        result = self.type()
        return f"{unsafe}{abi}fn({parameters})" + (f" -> {result}" if result != "()" else "")

    def _trait(self) -> str:
        """Reads a path, whose arguments the types of its associated names follow."""
        name, types = self.path(), []
        while self.take("p"):
            types.append(f"{self.word()} = {self.type()}")
        if not types:
            return name
        listed = ", ".join(types)
        return f"{name[:-1]}, {listed}>" if name.endswith(">") and not name.startswith("<") else f"{name}<{listed}>"

    def constant(self) -> str:
        return self.deeper(self._constant)

    def _constant(self) -> str:
        letter = self.next()
        if letter == "B":
            return self.back(self.constant)
        if letter == "p":
            return "_"
        minus = "-" * (letter in _SIGNED and self.take("n"))
        end = self.text.index("_", self.at)
        digits, self.at = self.text[self.at : end], end + 1
        value = int(digits, 16) if digits else 0
        if letter in _SIGNED or letter in _UNSIGNED:
            return f"{minus}{value}"
        if letter == "b" and value < 2:
            return "true" if value else "false"
        if letter == "c":
            return f"'{chr(value)}'" if chr(value).isprintable() and chr(value) not in "'\\" else repr(chr(value))
        raise _Unknown
