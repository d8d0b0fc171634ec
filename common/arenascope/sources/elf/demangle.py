"""C++ names of vtables, as far as a heap's first words need them: _ZTVN2ns4BaseE is "vtable for ns::Base".

The Itanium C++ ABI's mangling without substitutions: a name that has one stays as it is.
"""

from __future__ import annotations

from typing import Callable, Optional

SPECIAL = {"_ZTV": "vtable for ", "_ZTI": "typeinfo for ", "_ZTS": "typeinfo name for ", "_ZTT": "VTT for "}
BUILTIN = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
    "e": "long double",
    "w": "wchar_t",
}
STANDARD = {"t": "std", "s": "std::string", "a": "std::allocator", "b": "std::basic_string"}
SUFFIXES = {"P": "*", "R": "&", "O": "&&", "K": " const"}
DEEPEST = 32


def demangle(name: str) -> str:
    """The readable name, or `name` itself."""
    prefix = SPECIAL.get(name[:4])
    if prefix is None:
        return name
    parser = _Parser(name, 4)
    try:
        readable = parser.type(0)
    except (IndexError, ValueError):
        return name
    return prefix + readable if readable is not None and parser.at == len(name) else name


class _Parser:
    """Each method reads one thing at `at`; None, IndexError or ValueError where it is not of this subset."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def type(self, depth: int) -> Optional[str]:
        letter = self.text[self.at]
        if depth > DEEPEST:
            return None
        if letter in SUFFIXES:
            self.at += 1
            inner = self.type(depth + 1)
            return None if inner is None else inner + SUFFIXES[letter]
        if letter in BUILTIN:
            self.at += 1
            return BUILTIN[letter]
        if letter == "L":
            return self._literal()
        if letter == "N":
            self.at += 1
            return self._joined(depth, "::", self._part)
        return self._plain(depth)

    def _plain(self, depth: int) -> Optional[str]:
        """A name that is not nested; after St it belongs to namespace std."""
        name = self._part(depth)
        if name == "std":
            rest = self._part(depth)
            name = None if rest is None else f"std::{rest}"
        return name

    def _part(self, depth: int) -> Optional[str]:
        """One step of a name, with its template arguments."""
        letter = self.text[self.at]
        if letter == "S":
            step: Optional[str] = STANDARD.get(self.text[self.at + 1])
            self.at += 2
        elif letter.isdigit():
            step = self._word()
        else:
            step = None
        if step is not None and self.text[self.at : self.at + 1] == "I":
            self.at += 1
            arguments = self._joined(depth, ", ", self.type)
            return None if arguments is None else f"{step}<{arguments}>"
        return step

    def _joined(self, depth: int, between: str, read: Callable[[int], Optional[str]]) -> Optional[str]:
        parts = []
        while self.text[self.at] != "E":
            part = read(depth + 1)
            if part is None:
                return None
            parts.append(part)
        self.at += 1
        return between.join(parts)

    def _word(self) -> str:
        end = self.at
        while self.text[end].isdigit():
            end += 1
        size = int(self.text[self.at : end])
        word = self.text[end : end + size]
        if len(word) != size:
            raise ValueError(word)
        self.at = end + size
        # GCC's mark of a namespace without a name
        return "(anonymous namespace)" if word.startswith("_GLOBAL__N") else word

    def _literal(self) -> Optional[str]:
        """A number as template argument: Lm42E."""
        end = self.text.index("E", self.at)
        kind, value = self.text[self.at + 1], self.text[self.at + 2 : end]
        self.at = end + 1
        if kind not in BUILTIN or not value.lstrip("n").isdigit():
            return None
        if kind == "b":
            return "true" if value == "1" else "false"
        return value.replace("n", "-")
