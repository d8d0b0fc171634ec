"""Converts names of types, which compilers and debuggers write differently, to one spelling.

GDB has names as the compiler wrote them (`Ring<char const*, (Color)5, (char)'x'>`), LLDB as clang would (`Ring<const
char *, GREEN, 'x'>`), and symbols and RTTI are demangled (`Ring<char const*, (Color)5, (char)120>`). All are converted
to the last, without numbers' suffixes (5ul), which debug information does not have. Names that are no C++ keep their
spelling, except for spaces.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Sequence

from .elf.demangle import Type, listed, pointing

DEEPEST = 64
LONGEST = 16 << 10
_WORDS = {"unsigned", "signed", "long", "short", "int", "char", "double", "float", "__int128", "_Complex", "complex"}
_NAMES = {
    "_Bool": "bool",
    "std::nullptr_t": "decltype(nullptr)",
    "nullptr_t": "decltype(nullptr)",
    "std::string": "std::basic_string<char, std::char_traits<char>, std::allocator<char>>",
    "std::istream": "std::basic_istream<char, std::char_traits<char>>",
    "std::ostream": "std::basic_ostream<char, std::char_traits<char>>",
    "std::iostream": "std::basic_iostream<char, std::char_traits<char>>",
}
_KINDS = ("struct ", "class ", "union ", "enum ")
_ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "v": 11, "f": 12, "'": 39, '"': 34, "\\": 92}
_NUMBER = re.compile(r"(-?\d+)(?:u|l|ul|ll|ull)?", re.IGNORECASE)
_CHARACTER = re.compile(
    r"(?:\((?P<type>[a-z ]+)\) ?)?'(?:\\(?P<octal>[0-7]{1,3})|\\x(?P<hex>[0-9a-f]+)|\\?(?P<one>.))'"
)
_CAST = re.compile(r"(\([\w:<>, ()*&]+\)) ?(-?\d+)(?:u|l|ul|ll|ull)?", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_CLOSING = {"(": ")", "<": ">", "[": "]", "{": "}"}
_OPERATOR = re.compile(r"operator ?(?:<=>|<<=?|>>=?|->\*?|[<>]=?|\(\)|\[\])")


class _NotCplusplus(Exception):
    """The name is no type of C++."""


class Parts(NamedTuple):
    """The parts of a class template's name: `ns::Ring` and its arguments as they are written."""

    template: str
    arguments: Sequence[str]


def parts_of(name: str) -> Optional[Parts]:
    """Returns the parts; None if the name does not end in a template's arguments."""
    start = next((start for start, end in _brackets(name) if end == len(name) and name[start] == "<"), None)
    if start is None:
        return None
    return Parts(name[:start], _split(name[start + 1 : -1]))


def within(name: str) -> tuple[str, str]:
    """Splits a name into its namespace or class, and the name in it: ("ns::Ring<ns::T>", "Node"); the first may be
    ""."""
    covered = _brackets(name)
    at = len(name)
    while True:
        at = name.rfind("::", 0, at)
        if at < 0:
            return "", name
        if not any(start < at < end for start, end in covered):
            return name[:at], name[at + 2 :]


def spelled(name: str) -> str:
    """Converts any debugger's spelling to the common one."""
    return _spelled(name.strip(), 0) if len(name) <= LONGEST else name


def literal(of: str, value: int) -> str:
    """Spells a number among a template's arguments, of the type of that name."""
    if of == "bool":
        return "true" if value else "false"
    plain = of in ("int", "unsigned int", "long", "unsigned long", "long long", "unsigned long long")
    return str(value) if plain else f"({of}){value}"


def _spelled(name: str, depth: int) -> str:
    if depth > DEEPEST:
        return name
    character, cast = _CHARACTER.fullmatch(name), _CAST.fullmatch(name)
    if character:
        return f"({character['type'] or 'char'}){_code(character)}"
    if cast:
        return literal(_spelled(cast[1][1:-1], depth + 1), int(cast[2]))
    number = _NUMBER.fullmatch(name)
    if number:
        return number[1]
    try:
        reader = _Reader(name, depth)
        kind = reader.type()
        reader.skip()
        if reader.at == len(name):
            return str(kind)
    except (_NotCplusplus, IndexError, RecursionError):
        pass
    return _tidy(name)


def _code(character: re.Match[str]) -> int:
    if character["octal"] and len(character[0]) > 3:
        return int(character["octal"], 8)
    if character["hex"]:
        return int(character["hex"], 16)
    one: str = character["one"]
    return _ESCAPES[one] if "\\" in character[0] and one in _ESCAPES else ord(one)


def _tidy(name: str) -> str:
    return " ".join(name.split()).replace("> >", ">>").replace("> >", ">>")


def _brackets(name: str) -> list[tuple[int, int]]:
    """Yields the start and end of each outermost pair of brackets."""
    found, at = [], 0
    while at < len(name):
        operator = _OPERATOR.match(name, at)
        if operator and not (at and (name[at - 1].isalnum() or name[at - 1] == "_")):
            at = operator.end()
        elif name[at] in _CLOSING:
            end = _end(name, at)
            found.append((at, end))
            at = end
        elif name[at] == "'":
            at = _end_of_quotes(name, at)
        else:
            at += 1
    return found


def _end(name: str, start: int) -> int:
    """Returns the place after the bracket that closes the one at `start`; the name's end if none does."""
    waiting: list[str] = []
    at = start
    while at < len(name):
        letter = name[at]
        if letter == "'":
            at = _end_of_quotes(name, at)
            continue
        if letter in _CLOSING:
            waiting.append(_CLOSING[letter])
        elif waiting and letter == waiting[-1] and name[at - 1 : at + 1] != "->":
            waiting.pop()
            if not waiting:
                return at + 1
        at += 1
    return len(name)


def _end_of_quotes(name: str, start: int) -> int:
    """After 'x', '\\n' and ''' alike."""
    found = re.compile(r"'(?:\\x[0-9a-f]+|\\[0-7]{1,3}|\\.|[^\\]|lambda\d*|unnamed\d*)'").match(name, start)
    return found.end() if found else start + 1


def _split(text: str) -> list[str]:
    """Splits at commas outside brackets."""
    covered, items, start = _brackets(text), [], 0
    for at, letter in enumerate(text):
        if letter == "," and not any(first < at < end for first, end in covered) and text[at - 1 : at + 2] != "','":
            items.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*items, last] if last or items else []


class _Reader:
    """A parser of names: each method reads one thing at `at`."""

    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.depth = depth
        self.at = 0

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1

    def peek(self) -> str:
        self.skip()
        return self.text[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        self.skip()
        there = self.text.startswith(text, self.at)
        self.at += len(text) if there else 0
        return there

    def word(self) -> str:
        self.skip()
        found = _WORD.match(self.text, self.at)
        return found[0] if found else ""

    def inside(self) -> str:
        """Reads what is in the brackets that begin here."""
        start = self.at
        self.at = _end(self.text, start)
        if self.text[self.at - 1] != _CLOSING.get(self.text[start]) or self.at - 1 == start:
            raise _NotCplusplus
        return self.text[start + 1 : self.at - 1]

    def type(self) -> Type:
        words: list[str] = []
        name, qualifiers = "", ""
        while True:
            word = self.word()
            if word in ("const", "volatile"):
                qualifiers = self.qualifiers(qualifiers)
            elif f"{word} " in _KINDS and not name:
                self.at += len(word)
            elif word in _WORDS and not name:
                words.append(word)
                self.at += len(word)
            elif not name and not words:
                name = self.path()
                if not name:
                    raise _NotCplusplus
            else:
                break
        return self.declared(Type((_builtin(words) if words else _NAMES.get(name, name)) + qualifiers))

    def qualifiers(self, known: str = "") -> str:
        """Reads qualifiers, and adds them to those known already."""
        found = set(known.split())
        while self.word() in ("const", "volatile", "restrict", "__restrict", "__restrict__"):
            found.add(self.word())
            self.at += len(self.word())
        return "".join(f" {each}" for each in ("const", "volatile") if each in found)

    def path(self) -> str:
        """Reads a name with its namespaces, classes and functions."""
        steps: list[str] = []
        self.take("::")
        while True:
            step = self.step()
            if not step:
                return "::".join(steps) if not steps else ""
            steps.append(step)
            before = self.at
            if self.take("::"):
                if self.peek() == "*":
                    self.at = before
                    return "::".join(steps)
                continue
            return "::".join(steps)

    def step(self) -> str:
        self.skip()
        if self.text.startswith("(anonymous namespace)", self.at) or self.peek() in ("{", "<", "'"):
            return self.nameless()
        if self.text.startswith("(unnamed ", self.at) or self.text.startswith("(anonymous ", self.at):
            return self.nameless()
        start = self.at
        operator = _OPERATOR.match(self.text, self.at)
        self.take("~")
        word = operator[0] if operator else self.word()
        if not word:
            raise _NotCplusplus
        self.at += len(word)
        if word == "decltype" and self.peek() == "(":
            self.inside()
        while self.text.startswith("[abi:", self.at):
            self.inside()
        step = self.text[start : self.at]
        if self.peek() == "<":
            arguments = _split(self.inside())
            step += f"<{', '.join(_spelled(each, self.depth + 1) for each in arguments)}>"
        return self.of_function(step)

    def nameless(self) -> str:
        start = self.at
        if self.text[start] == "'":
            # clang's lambdas: 'lambda'(int)
            self.at = _end_of_quotes(self.text, start)
        self.inside()
        return self.text[start : self.at]

    def of_function(self, step: str) -> str:
        """Reads `main(int, char**)` or `Ring::push() const`, if a class in the function follows."""
        before = self.at
        if self.peek() == "(":
            try:
                parameters = self.parameters(self.inside())
            except _NotCplusplus:
                self.at = before
                return step
            suffix = self.qualifiers()
            if self.text.startswith("::", self.at) and not self.text.startswith("::*", self.at):
                return f"{step}({parameters}){suffix}"
        self.at = before
        return step

    def parameters(self, text: str) -> str:
        given = [_spelled(each, self.depth + 1) for each in _split(text)]
        return "" if given == ["void"] else listed([Type(each) for each in given])

    def declared(self, of: Type) -> Type:
        """Reads what follows a type: `*`, `(&)[3]`, `(int)`."""
        of = self.pointers(of)
        if self.peek() == "(" and self.is_nested():
            nested = _Reader(self.inside(), self.depth + 1)
            of = nested.declared(self.suffixes(of))
            nested.skip()
            if nested.at != len(nested.text):
                raise _NotCplusplus
            return of
        return self.suffixes(of)

    def pointers(self, of: Type) -> Type:
        while True:
            if self.peek() in ("*", "&"):
                mark = "&&" if self.take("&&") else self.text[self.at]
                self.at += mark != "&&"
                of = pointing(of, mark)
            elif self.word() and self.word() not in ("const", "volatile", "noexcept"):
                of = self.of_member(of)
            else:
                return of
            qualifiers = self.qualifiers()
            of = of._replace(left=of.left + qualifiers)

    def of_member(self, of: Type) -> Type:
        owner = self.path()
        if not owner or not self.take("::*"):
            raise _NotCplusplus
        if of.open:
            return Type(f"{of.left}({owner}::*", f"){of.right}")
        return Type(f"{of.left} {owner}::*", of.right)

    def is_nested(self) -> bool:
        """Whether a declarator is in these brackets, and not parameters."""
        text = self.text[self.at + 1 :].lstrip()
        return text[:1] in ("*", "&") or re.match(r"[\w:<>, ]*::\*", text) is not None

    def suffixes(self, of: Type) -> Type:
        if self.peek() == "(":
            parameters = self.parameters(self.inside())
            suffix = self.qualifiers()
            suffix += " &&" if self.take("&&") else " &" if self.take("&") else ""
            suffix += " noexcept" if self.take("noexcept") else ""
            space = "" if of.left.endswith("(*") else " "
            return Type(f"{of.left}{space}", f"({parameters}){suffix}{of.right}", open=True)
        sizes = []
        while self.peek() == "[":
            sizes.append(self.inside().strip())
        for size in reversed(sizes):
            rest = of.right.removeprefix(" ") if of.open else of.right
            of = Type(of.left if of.open else f"{of.left} ", f"[{size}]{rest}", open=True)
        return of


def _builtin(words: Sequence[str]) -> str:
    """Spells a built-in type: `long unsigned int` is "unsigned long"."""
    complex = "_Complex " * any(word in ("_Complex", "complex") for word in words)
    sign = "unsigned " * ("unsigned" in words)
    for rest in ("double", "float", "char", "short", "__int128"):
        if rest in words:
            signed = "signed " * (rest == "char" and "signed" in words)
            return f"{complex}{sign}{signed}{'long ' * words.count('long')}{rest}"
    return f"{complex}{sign}{' '.join(['long'] * words.count('long')) or 'int'}"
