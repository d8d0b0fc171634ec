"""Class names as people write them: without templates' default arguments. For shared_ptr's own classes, what they
hold."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Sequence

INLINE = ("std::__1::", "std::__cxx11::", "std::__ndk1::", "std::__2::")
"""Inline namespaces, which people omit."""
ALLOCATOR = "std::allocator<"
DEFAULTS = ("char_traits", "less", "hash", "equal_to", "default_delete")
"""Default arguments in std, each of the template's first argument."""
RUSTS_ALLOCATOR = ", alloc::alloc::Global>"
STRINGS = {
    "std::basic_string<char>": "std::string",
    "std::basic_string<wchar_t>": "std::wstring",
    "std::basic_string<char16_t>": "std::u16string",
    "std::basic_string<char32_t>": "std::u32string",
}
INSIDE, APART = "make_shared<{}>", "control block of shared_ptr<{}>"
FUNCTION = "std::__function::__func"
"""The object that libc++'s std::function keeps outside itself; libstdc++'s has no vtable."""
CONTROLS = {
    "std::_Sp_counted_ptr_inplace": INSIDE,
    "std::_Sp_counted_ptr": APART,
    "std::_Sp_counted_deleter": APART,
    "std::__shared_ptr_emplace": INSIDE,
    "std::__shared_ptr_pointer": APART,
    "boost::detail::sp_counted_impl_p": APART,
    "boost::detail::sp_counted_impl_pd": APART,
}
"""Templates of control blocks. The first argument is the class of the object held, or of a pointer to it."""
BODY = " body"
LIBRARIES_BODIES = re.compile(
    r"(std::(string|u16string|u32string|wstring|vector|deque|function)|Vec|Vec<u8> or String) body"
)
"""Bodies that are recognised by containers' words (named_by_holders.py). Any other body is known only by what points to
it."""


class ControlBlock(NamedTuple):
    """What shared_ptr counts its owners in, by its class."""

    template: str
    arguments: Sequence[str]


def control_block(demangled: str) -> Optional[ControlBlock]:
    """None for other classes."""
    for each in INLINE:
        demangled = demangled.replace(each, "std::")
    template, arguments = _split(demangled) or (demangled, [])
    return ControlBlock(template, arguments) if template in CONTROLS and arguments else None


class NamedClass(NamedTuple):
    """A class by name, and the kind of block that it makes."""

    name: str
    kind: str


def named(demangled: str) -> NamedClass:
    name = readable(demangled)
    template, arguments = _split(name) or (name, [])
    if template == FUNCTION:
        return NamedClass("std::function body", "holder")
    form = CONTROLS.get(template)
    if form is None or not arguments:
        return NamedClass(name, "c++")
    held = arguments[0].removesuffix("*") if form is APART else arguments[0]
    return NamedClass(form.format(held), "control")


LONGEST = 16 << 10
"""Longer names are not shortened: each level would be scanned again."""


def readable(name: str) -> str:
    for each in INLINE:
        name = name.replace(each, "std::")
    name = name.replace(RUSTS_ALLOCATOR, ">")
    if len(name) > LONGEST:
        return name
    try:
        return _shortened(name)
    except RecursionError:
        return name


def type_words(name: str) -> str:
    """Returns a type's name for people: "g_pool[] body" is "what g_pool leads to by 2 pointers"."""
    name = named(name).name
    if not is_pointed_to(name):
        return name
    holder = name[: -len(BODY)]
    start = holder.rstrip("[]")
    pointers = 1 + holder[len(start) :].count("[]")
    return f"what {start} points to" if pointers == 1 else f"what {start} leads to by {pointers} pointers"


def is_pointed_to(name: str) -> bool:
    """Tells whether the name only says what points to the block."""
    return name.endswith(BODY) and LIBRARIES_BODIES.fullmatch(name) is None


def with_short_names(text: str) -> str:
    """Shortens names of classes or functions in a text for people."""
    return readable(text) if "::" in text and "<" in text else text


def _shortened(name: str) -> str:
    """Leaves out each template's default arguments."""
    start = name.find("<")
    if start < 0:
        return name
    end = _closing(name, start)
    if end is None:
        return name
    arguments = [_shortened(each) for each in _arguments(name[start + 1 : end])]
    defaults = {f"std::{each}<{arguments[0]}>" for each in DEFAULTS}
    while len(arguments) > 1 and (arguments[-1] in defaults or arguments[-1].startswith(ALLOCATOR)):
        arguments.pop()
    shortened = f"{name[:start]}<{', '.join(arguments)}>"
    for long, short in STRINGS.items():
        if shortened.endswith(long):
            shortened = shortened[: -len(long)] + short
    return shortened + _shortened(name[end + 1 :])


def _split(name: str) -> Optional[tuple[str, list[str]]]:
    """Splits a name into a template and its arguments; None if it is no template's."""
    start = name.find("<")
    if start < 0 or _closing(name, start) != len(name) - 1:
        return None
    return name[:start], _arguments(name[start + 1 : -1])


def _closing(name: str, start: int) -> Optional[int]:
    depth = 0
    for at in range(start, len(name)):
        if name[at] in "<({[":
            depth += 1
        elif name[at] in ">)}]" and name[at - 1 : at + 1] != "->":
            depth -= 1
            if not depth:
                return at
    return None


def _arguments(text: str) -> list[str]:
    arguments, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<({[") - (letter in ">)}]" and text[at - 1 : at + 1] != "->")
        if letter == "," and not depth:
            arguments.append(text[start:at].strip())
            start = at + 1
    return [*arguments, text[start:].strip()]
