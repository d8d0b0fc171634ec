"""Types of C++ as they are written in declarations: around a name, or by themselves."""

from __future__ import annotations

from typing import NamedTuple, Sequence


class Type(NamedTuple):
    """What stands before and after a name that is declared to be of it: "void (*" and ")(int)"."""

    left: str
    right: str = ""
    open: bool = False
    """A function or array: what points to it needs parentheses."""

    def __str__(self) -> str:
        return self.left + self.right


def listed(kinds: Sequence[Type]) -> str:
    """An empty pack is none."""
    return ", ".join(filter(None, map(str, kinds)))


def pointing(of: Type, mark: str) -> Type:
    if of.open:
        return Type(f"{of.left}({mark}", f"){' ' if of.right.startswith('[') else ''}{of.right}")
    if mark != "*" and of.left.endswith("&"):
        # references collapse
        return of if mark == "&&" or not of.left.endswith("&&") else of._replace(left=of.left[:-1])
    return of._replace(left=of.left + mark)


def without_arguments(name: str) -> str:
    """As a constructor is named after its class."""
    depth, end = 0, len(name)
    if not name.endswith(">"):
        return name
    for at in range(len(name) - 1, -1, -1):
        depth += {">": 1, "<": -1}.get(name[at], 0)
        if not depth:
            end = at
            break
    return name[:end]
