"""One spelling for a type's name, as GDB, LLDB, the demangler and people write it in many.

What is the same type becomes the same text, and nothing else does: default arguments of the standard's templates are
left out only where they are just what the default would be."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple, Optional

WORDS = {"unsigned", "signed", "long", "short", "int", "char", "double"}
INLINE = re.compile(r"\b(std|__gnu_cxx)::(?:__cxx11|_V2|__1|__8)::")
KEYWORD = re.compile(r"\b(?:struct|class|enum|union) ")
LITERAL = re.compile(r"(?:\([\w: ]+\))?(-?\d+)(?:u|l|ul|ll|ull)?", re.I)
LAMBDA = re.compile(r"[{<]lambda\(([^{}]*?)\)(?:#\d+\}|>|\})")
MAINS = re.compile(r"\bmain(?:\([^()]*\))?::(?!\{|<)")
PLAIN = re.compile(r"((?:const |volatile )*)([\w:$]+(?: [\w:$]+)*?)((?: const\b| volatile\b)*\s*(?:[*&\[].*)?)")
POLICIES = {"__gnu_cxx::_S_single": "0", "__gnu_cxx::_S_mutex": "1", "__gnu_cxx::_S_atomic": "2"}
POLICIES.update({name.replace("__gnu_cxx", "std"): value for name, value in POLICIES.items()})
STRINGS = {"char": "string", "wchar_t": "wstring", "char16_t": "u16string", "char32_t": "u32string"}


DEFAULTS = {
    ("vector", "list", "forward_list", "deque"): ["allocator"],
    ("set", "multiset"): ["less", "allocator"],
    ("unordered_set", "unordered_multiset"): ["hash", "equal_to", "allocator"],
    ("basic_string",): ["char_traits", "allocator"],
    ("unique_ptr",): ["default_delete"],
    ("stack", "queue"): ["deque"],
    ("priority_queue",): ["vector", "less"],
}
"""The arguments of std's templates after the first, where they are not said."""


class Template(NamedTuple):
    head: str
    arguments: list[str]
    rest: str
    """What follows its last ">"."""


def template(text: str) -> Optional[Template]:
    """The first template in a name."""
    start = text.find("<")
    if start < 1:
        return None
    arguments, depth, since = [], 0, start + 1
    for at in range(start, len(text)):
        sign = text[at]
        if sign in "<({[":
            depth += 1
        elif sign in ")}]" or (sign == ">" and text[at - 1] != "-"):
            depth -= 1
        if (sign == "," and depth == 1) or not depth:
            arguments.append(text[since:at].strip())
            since = at + 1
        if not depth:
            return Template(text[:start], arguments if arguments != [""] else [], text[at + 1 :])
    return None


def constant(kind: str) -> str:
    return f"{kind} const" if kind.endswith("*") else f"const {kind}"


@cache
def canonical(text: str) -> str:
    text = KEYWORD.sub("", re.sub(r"\s+", " ", text.strip()))
    while INLINE.search(text):
        text = INLINE.sub(r"\1::", text)
    # in debug information a function's type has its own name alone
    text = MAINS.sub("", text)
    # its number in the function is known to the demangler alone
    text = LAMBDA.sub(r"{lambda(\1)}", text)
    literal = LITERAL.fullmatch(text)
    if literal:
        return literal[1]
    if text in POLICIES:
        return POLICIES[text]
    called = _called(text)
    if called:
        result, arguments = text[:called], template(f"f<{text[called + 1 : -1]}>")
        return f"{canonical(result)}({','.join(map(canonical, arguments.arguments if arguments else ()))})"
    found = template(text)
    if found is None or re.search(r"[({]", found.head):
        return _plain(text)
    prefix, head = re.fullmatch(r"((?:const |volatile )*)(.*)", found.head.strip()).groups()  # type: ignore[union-attr]
    arguments = [canonical(each) for each in found.arguments]
    while len(arguments) > 1 and arguments[-1] == _default(head, arguments):
        arguments.pop()
    if head == "std::basic_string" and len(arguments) == 1 and arguments[0] in STRINGS:
        name = f"std::{STRINGS[arguments[0]]}"
    else:
        name = f"{head}<{','.join(arguments)}>"
    rest = found.rest
    if re.match(r"\s*::", rest):
        # of what lies in it, the rest may be a template again
        return prefix + name + "::" + canonical(rest.strip()[2:])
    return _ordered(prefix, name, rest)


def _called(text: str) -> int:
    """Where the arguments begin, of a function's type; 0 if it is none."""
    depth = 0
    for at in range(len(text) - 1, 0, -1) if text.endswith(")") else ():
        depth += (text[at] in ")>]}") - (text[at] in "(<[{")
        if not depth:
            return at if text[at] == "(" else 0
    return 0


def _default(head: str, arguments: list[str]) -> Optional[str]:
    """What the last argument would be if it were not said."""
    name, at, of = head.rpartition("::")[2], len(arguments) - 1, arguments[0]
    if not head.startswith("std::"):
        return None
    if name in ("map", "multimap") and at > 1:
        return {2: f"std::less<{of}>", 3: f"std::allocator<std::pair<{constant(of)},{arguments[1]}>>"}.get(at)
    if name in ("unordered_map", "unordered_multimap") and at > 1:
        pair = f"std::pair<{constant(of)},{arguments[1]}>"
        return {2: f"std::hash<{of}>", 3: f"std::equal_to<{of}>", 4: f"std::allocator<{pair}>"}.get(at)
    defaults = next((each for names, each in DEFAULTS.items() if name in names), ())
    return f"std::{defaults[at - 1]}<{of}>" if at <= len(defaults) else None


def _plain(text: str) -> str:
    """Without template arguments: builtin types have many spellings."""
    found = PLAIN.fullmatch(text)
    if not found:
        return re.sub(r"\s+(?=[*&\[])", "", text)
    words = found[2].split()
    if set(words) <= WORDS:
        words = _builtin(words)
    return _ordered(found[1], " ".join(words), found[3])


def _builtin(words: list[str]) -> list[str]:
    bare = [each for each in words if each not in ("int", "signed")] if "char" not in words else list(words)
    sign = ["unsigned"] if "unsigned" in bare else []
    bare = [each for each in bare if each != "unsigned"]
    if not bare:
        bare = ["int"]
    return [*sign, *sorted(bare, reverse=True)] if "double" not in bare else sorted(bare, reverse=True)


def _ordered(prefix: str, name: str, rest: str) -> str:
    """`const` goes in front of what it belongs to, and no blank before a star."""
    behind = re.match(r"(?:\s*(?:const|volatile)\b)+", rest)
    if behind:
        prefix, rest = " ".join(sorted({*prefix.split(), *behind[0].split()})) + " ", rest[behind.end() :]
    return prefix + name + re.sub(r"\s*([*&\[])\s*", r"\1", rest).replace("*const", "* const").rstrip()


@cache
def rust(text: str) -> str:
    """Without the standard library's modules and the program's name: in a fixture no two types have the same name in
    different modules."""
    text = re.sub(
        r", (?:alloc::alloc::Global|std::(?:hash::random|collections::hash::map)::RandomState)(?=[,>])",
        "",
        re.sub(r"\s+", " ", text.strip()),
    )
    text = re.sub(r"\b(?:idioms::|(?:alloc|core|std|hashbrown)::(?:[a-z_]\w*::)*)(?=[\w{])", "", text)
    text = re.sub(r"\{+closure(?:_env)?(?:#\d+)?\}+", "{closure}", text)
    return re.sub(r"\s*([,<>\[\]()])\s*", r"\1", text)
