"""Demangles C++ names of classes, as the first words of blocks lead to them (_ZTVN2ns4BaseE is "vtable for ns::Base"),
of variables and of functions. rust_names.py does it for Rust.

It reads the Itanium C++ ABI's mangling of types, and of functions without the return types of template functions.
Anything else (expressions among template arguments) stays as it is. The spelling is that of binutils' c++filt, without
the spaces that C++98 wanted between brackets.
"""

from __future__ import annotations

import re
from typing import Callable, NamedTuple, Sequence, TypeVar

from .rust_names import of_rust

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
    "n": "__int128",
    "o": "unsigned __int128",
    "f": "float",
    "d": "double",
    "e": "long double",
    "g": "__float128",
    "w": "wchar_t",
    "z": "...",
    "Dn": "decltype(nullptr)",
    "Di": "char32_t",
    "Ds": "char16_t",
    "Du": "char8_t",
    "Da": "auto",
    "Dd": "decimal64",
    "De": "decimal128",
    "Df": "decimal32",
    "DF16b": "std::bfloat16_t",
    **{f"DF{bits}_": f"_Float{bits}" for bits in (16, 32, 64, 128)},
    **{f"DF{bits}x": f"_Float{bits}x" for bits in (32, 64, 128)},
}
STANDARD = {
    "t": "std",
    "a": "std::allocator",
    "b": "std::basic_string",
    "s": "std::string",
    "i": "std::istream",
    "o": "std::ostream",
    "d": "std::iostream",
}
NUMBERS = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
"""The literals that are written as numbers, by type, with their suffixes."""
SUFFIXES = {"P": "*", "R": "&", "O": "&&"}
QUALIFIERS = {"r": " restrict", "V": " volatile", "K": " const"}
OPERATORS = {
    "cl": "operator()",
    "ix": "operator[]",
    "pt": "operator->",
    "aS": "operator=",
    "nw": "operator new",
    "eq": "operator==",
    "ne": "operator!=",
    "lt": "operator<",
    "gt": "operator>",
    "pl": "operator+",
    "mi": "operator-",
    "ml": "operator*",
    "ls": "operator<<",
    "rs": "operator>>",
    "pp": "operator++",
}


class Type(NamedTuple):
    """A type as the text before and after a name that is declared with it: "void (*" and ")(int)"."""

    left: str
    right: str = ""
    open: bool = False
    """Whether it is a function or array: a pointer to it needs parentheses."""

    def __str__(self) -> str:
        return self.left + self.right


def listed(kinds: Sequence[Type]) -> str:
    """Joins arguments; an empty pack is none."""
    return ", ".join(filter(None, map(str, kinds)))


def pointing(of: Type, mark: str) -> Type:
    if of.open:
        return Type(f"{of.left}({mark}", f"){' ' if of.right.startswith('[') else ''}{of.right}")
    if mark != "*" and of.left.endswith("&"):
        # references collapse
        return of if mark == "&&" or not of.left.endswith("&&") else of._replace(left=of.left[:-1])
    return of._replace(left=of.left + mark)


def without_arguments(name: str) -> str:
    """Drops template arguments, as a constructor is named after its class without them."""
    depth, end = 0, len(name)
    if not name.endswith(">"):
        return name
    for at in range(len(name) - 1, -1, -1):
        depth += {">": 1, "<": -1}.get(name[at], 0)
        if not depth:
            end = at
            break
    return name[:end]


DEEPEST = 64
NONE = -1
LONGEST = 16 << 10
"""The longest name: each substitution can double it."""
_CLONE = re.compile(r"(\.[a-zA-Z_]+(?:\.\d+)*)")
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def demangle(name: str) -> str:
    """Returns the readable name, or `name` itself."""
    if name.startswith("_R") or "17h" in name:
        rust = of_rust(name)
        if rust is not None:
            return rust
    prefix = SPECIAL.get(name[:4], "")
    if not prefix and not name.startswith("_Z"):
        return name
    parser = _Parser(name, 4 if prefix else 2)
    try:
        readable = str(parser.type()) if prefix else parser.whole()
    except (_Unknown, IndexError, ValueError, RecursionError):
        return name
    return f"{prefix}{readable}" if parser.at == len(parser.text) else name


_BRACKETS = ("operator>", "operator>>", "operator->", "operator<=>")
_Any = TypeVar("_Any")


class _Unknown(Exception):
    """It is no name, or has something that is not supported here."""


class _Parser:
    """A parser of mangled names: each method reads one thing at `at`."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at
        self.depth = 0
        self.known: list[Type] = []
        """The texts that substitutions stand for, in the order in which they were met."""
        self.arguments: list[Type] = []
        """The arguments of the last template, which T_ refers to."""
        self.in_lambda = 0
        self.first_given = NONE
        """In a local name: the first substitution that depends on a template's argument."""
        self.elsewhere: set[int] = set()
        """The same of another template, which has ended: the same letters stand for other types now."""
        self.suffix = ""
        """The suffix of the last nested name: " const" of a member function."""
        self.makes = False
        """Whether it named a constructor or destructor, which has no return type."""

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def take(self, text: str) -> bool:
        there = self.text.startswith(text, self.at)
        self.at += len(text) if there else 0
        return there

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise _Unknown

    def keep(self, kind: Type) -> Type:
        if len(kind.left) + len(kind.right) > LONGEST:
            raise _Unknown
        self.known.append(kind)
        return kind

    def type(self) -> Type:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Unknown
        kind = self._type()
        self.depth -= 1
        return kind

    def _type(self) -> Type:
        letter = self.peek()
        for size in (1, 2, 5, 6):
            if self.peek(size) in BUILTIN:
                self.at += size
                return Type(BUILTIN[self.text[self.at - size : self.at]])
        if letter in SUFFIXES:
            self.at += 1
            return self.keep(pointing(self.type(), SUFFIXES[letter]))
        if letter in QUALIFIERS:
            return self.keep(self._qualified())
        readers: dict[str, Callable[[], Type]] = {"F": self._function, "A": self._array, "M": self._member}
        if letter in readers:
            self.at += 1
            return self.keep(readers[letter]())
        if self.take("Dp"):
            if self.arguments and not self.in_lambda and self.peek() != "T":
                raise _Unknown  # each of a pack by itself
            return self.keep(self.type())
        if self.peek(3) == "DoF":
            self.at += 3
            function = self._function()
            return self.keep(function._replace(right=f"{function.right} noexcept"))
        if letter == "T" and self.peek(2)[1:] in (*DIGITS[:10], "_"):
            parameter = self.keep(self._parameter())
            return self._with_arguments(parameter) if self.peek() == "I" else parameter
        return self._class()

    def _qualified(self) -> Type:
        words = ""
        while self.peek() in QUALIFIERS:
            words = QUALIFIERS[self.peek()] + words
            self.at += 1
        # what "this" is declared to be: the function's type without that counts for no substitution
        kind = self._function() if self.take("F") else self.type()
        if kind.open:
            return kind._replace(right=kind.right + words)
        # what a template was given may be const already
        return kind if kind.left.endswith(words) else kind._replace(left=kind.left + words)

    def _function(self) -> Type:
        self.take("Y")
        result = self.type()
        arguments = self._parameters("E")
        reference = " &" if self.take("R") else " &&" if self.take("O") else ""
        self.expect("E")
        space = "" if result.left.endswith("(*") else " "
        return Type(f"{result.left}{space}", f"({arguments}){reference}{result.right}", open=True)

    def _array(self) -> Type:
        end = self.text.index("_", self.at)
        size = self.text[self.at : end]
        if size and not size.isdigit():
            raise _Unknown
        self.at = end + 1
        of = self.type()
        rest = of.right.removeprefix(" ") if of.open else of.right
        return Type(of.left if of.open else f"{of.left} ", f"[{size}]{rest}", open=True)

    def _member(self) -> Type:
        owner = str(self.type())
        of = self.type()
        if of.open:
            return Type(f"{of.left}({owner}::*", f"){of.right}")
        return Type(f"{of.left} {owner}::*", of.right)

    def _parameters(self, *ends: str) -> str:
        parameters = []
        while not (self.peek() in ends or self.peek(2) in ("RE", "OE") or self.at == len(self.text)):
            parameters.append(self._apart(self.type))
        return "" if parameters == [Type("void")] else listed(parameters)

    def _parameter(self) -> Type:
        """Reads T_, T0_ … : in a generic lambda its own `auto`s."""
        self.expect("T")
        number = self._sequence(10)
        if self.in_lambda:
            return Type(f"auto:{number + 1}")
        if number >= len(self.arguments):
            raise _Unknown
        if self.first_given == NONE:
            self.first_given = len(self.known)
        return self.arguments[number]

    def _sequence(self, base: int) -> int:
        """Reads a sequence number: _ is 0, 0_ is 1, and so on."""
        end = self.text.index("_", self.at)
        digits = self.text[self.at : end]
        self.at = end + 1
        return int(digits, base) + 1 if digits else 0

    # names

    def _class(self) -> Type:
        """Reads a class or enumeration, and keeps it for substitutions."""
        if self.peek() != "S" or self.peek(2) == "St":
            return self.keep(Type(self.name()))
        kind = self._substitution()
        return self._with_arguments(kind) if self.peek() == "I" else kind

    def name(self) -> str:
        if self.take("N"):
            return self._nested()
        if self.take("Z"):
            return self._local()
        if self.peek() == "S" and self.peek(2) != "St":
            name = str(self._substitution())
        else:
            self.take("L")
            name = "std::" + self._step("") if self.take("St") else self._step("")
            if self.peek() == "I":
                self.keep(Type(name))
        return name + self._template(name) if self.peek() == "I" else name

    def _nested(self) -> str:
        makes, suffix = False, ""
        while self.peek() in QUALIFIERS:
            suffix = QUALIFIERS[self.peek()] + suffix
            self.at += 1
        suffix += " &" if self.take("R") else " &&" if self.take("O") else ""
        name = ""
        while not self.take("E"):
            first = not name
            if first and self.take("St"):
                name = "std"
                continue
            if self.peek() == "S":
                name = str(self._substitution())
                continue
            if self.peek() == "T":
                name = str(self._parameter())
            elif self.peek() == "I":
                name += self._template(name)
            else:
                makes = self.peek() in ("C", "D")
                name = (f"{name}::" if name else "") + self._step(name)
            if self.peek() != "E":
                self.keep(Type(name))
        self.suffix, self.makes = suffix, makes
        return name

    def _local(self) -> str:
        """Reads a class in a function."""
        before, self.first_given = self.first_given, NONE
        function = self._encoding()
        self.expect("E")
        if self.peek() == "s" or self.peek() == "d":
            raise _Unknown
        name = self.name()
        if self.first_given != NONE:
            self.elsewhere.update(range(self.first_given, len(self.known)))
        self.first_given = before
        if self.take("__"):
            self.at = self.text.index("_", self.at) + 1
        elif self.peek() == "_" and self.peek(2)[1:].isdigit():
            self.at += 2
        return f"{function}::{name}"

    def whole(self) -> str:
        """Reads a variable, or a function, or a compiler's variant of one (".isra.0")."""
        self.text, *made = _CLONE.split(self.text)
        return "".join([self._encoding(), *(f" [clone {each}]" for each in made if each)])

    def _encoding(self) -> str:
        """Reads a function with its parameters, or a variable."""
        self.suffix, self.makes = "", False
        name, suffix, makes = self.name(), self.suffix, self.makes
        if self.peek() in ("E", ""):
            return name
        # a template's return type is mangled, too, and left out
        if name.endswith(">") and not makes and not name.endswith(_BRACKETS):
            self._apart(self.type)
        return f"{name}({self._parameters('E')}){suffix}"

    def _step(self, within: str) -> str:
        """Reads one component of a name, without template arguments."""
        self.take("L")  # known to its file alone
        self.take("M")  # what initialises the member before
        letter = self.peek()
        if letter.isdigit():
            step = self._word()
        elif letter == "U":
            step = self._unnamed()
        elif letter in ("C", "D") and self.peek(2)[1:].isdigit():
            self.at += 2
            own = without_arguments(within).rpartition("::")[2].partition("[abi:")[0]
            step = own if letter == "C" else f"~{own}"
        elif self.peek(2) in OPERATORS:
            step = OPERATORS[self.peek(2)]
            self.at += 2
        else:
            raise _Unknown
        while self.take("B"):
            step += f"[abi:{self._word()}]"
        return step

    def _unnamed(self) -> str:
        if self.take("Ut"):
            return f"{{unnamed type#{self._sequence(10) + 1}}}"
        self.expect("Ul")
        self.in_lambda += 1
        parameters = self._parameters("E")
        self.in_lambda -= 1
        self.expect("E")
        return f"{{lambda({parameters})#{self._sequence(10) + 1}}}"

    def _word(self) -> str:
        end = self.at
        while self.text[end].isdigit():
            end += 1
        size = int(self.text[self.at : end])
        word = self.text[end : end + size]
        if len(word) != size or not size:
            raise _Unknown
        self.at = end + size
        # GCC's mark of a namespace without a name
        return "(anonymous namespace)" if word.startswith("_GLOBAL__N") else word

    def _substitution(self) -> Type:
        self.expect("S")
        letter = self.peek()
        if letter in STANDARD:
            self.at += 1
            return Type(STANDARD[letter])
        number = self._sequence(36)
        if number in self.elsewhere:
            raise _Unknown
        return self.known[number]

    def _with_arguments(self, kind: Type) -> Type:
        return self.keep(Type(f"{kind}{self._template()}"))

    # template arguments

    def _apart(self, read: Callable[[], _Any]) -> _Any:
        """Reads separately: what is known of names in it does not apply to what follows."""
        before = self.arguments, self.suffix, self.makes
        found = read()
        self.arguments, self.suffix, self.makes = before
        return found

    def _template(self, of: str = "") -> str:
        arguments = self._list("I")
        self.arguments = arguments
        return f"{' ' * of.endswith(('operator<', 'operator<<'))}<{listed(arguments)}>"

    def _list(self, mark: str) -> list[Type]:
        self.expect(mark)
        items = []
        while not self.take("E"):
            items.append(self._apart(self._argument))
        return items

    def _argument(self) -> Type:
        letter = self.peek()
        if letter == "L":
            return Type(self._literal())
        if letter == "J":
            return Type(listed(self._list("J")))
        if letter == "X":
            raise _Unknown
        return self.type()

    def _literal(self) -> str:
        """Reads a literal: a number (Lm42E) or an enumerator (LN2ns1EE2E)."""
        self.expect("L")
        letter = self.peek()
        if self.take("_Z"):
            name = self.name()
            self.expect("E")  # a variable; functions have parameters
            return name
        of = str(self.type())
        end = self.text.index("E", self.at)
        value = self.text[self.at : end]
        self.at = end + 1
        if not value.removeprefix("n").isdigit():
            if of == BUILTIN["Dn"] and not value:
                return f"({of})0"
            raise _Unknown
        value = value.replace("n", "-")
        if letter == "b" and value in ("0", "1"):
            return "true" if value == "1" else "false"
        return value + NUMBERS[letter] if letter in NUMBERS else f"({of}){value}"
