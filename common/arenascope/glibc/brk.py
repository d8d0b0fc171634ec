"""The end of the break, as libc knows it: what systrim compares with the end of top."""

from __future__ import annotations

from typing import Optional

from ..errors import ArenascopeError
from ..memory import Memory
from ..sources.symbols import dynamic_symbols
from ..target import Target
from .libc_file import Libc


def exported(memory: Memory, libc: Libc, *names: str) -> dict[str, int]:
    """Addresses of what libc exports, out of its own tables in memory; {} where the image lacks them."""
    if libc.base is None:
        return {}
    try:
        found = dynamic_symbols(memory.read, libc.base, names)
    except ArenascopeError:
        return {}
    return {name: symbol.value for name, symbol in found.items()}


def current_brk(target: Target, memory: Memory, libc: Libc) -> Optional[int]:
    """The value of __curbrk: exported by every libc.so.6, a symbol in a static program. None where it is not found.

    The end of the [heap] mapping will not do: it is rounded to a page.
    """
    address = exported(memory, libc, "__curbrk").get("__curbrk")
    if address is None:
        symbol = target.symbol("__curbrk")
        address = symbol.address if symbol else None
    return memory.try_word(address) if address is not None else None
