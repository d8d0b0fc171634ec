"""The end of the break, as libc knows it: what systrim compares with the end of top."""

from __future__ import annotations

from typing import Optional, Sequence

from ...base.errors import ArenascopeError
from ...base.model import ArenaHeader
from ...sources.elf.symbols import dynamic_symbols
from ...sources.memory import Memory
from ...sources.target import Region, Target
from .libc_file import Libc, module_at


def exported(memory: Memory, libc: Libc, *names: str) -> dict[str, int]:
    """Addresses of what libc exports, out of its own tables in memory; {} where the image lacks them."""
    if libc.base is None:
        return {}
    try:
        symbols = dynamic_symbols(memory.read, libc.base, names)
    except ArenascopeError:
        return {}
    return {name: symbol.value for name, symbol in symbols.items()}


def current_brk(
    target: Target, memory: Memory, libc: Libc, regions: Sequence[Region], main: ArenaHeader
) -> Optional[int]:
    """The value of __curbrk: exported by every libc.so.6, a symbol in a static program. None where it is not found.

    The end of the [heap] mapping will not do: it is rounded to a page. Yet it answers what systrim asks.
    """
    address = exported(memory, libc, "__curbrk").get("__curbrk")
    if address is None:
        address = _by_symbol(target, memory, libc, regions)
    brk = memory.try_word(address) if address is not None else None
    return brk if brk is not None else _by_mapping(main, regions)


def _by_symbol(target: Target, memory: Memory, libc: Libc, regions: Sequence[Region]) -> Optional[int]:
    """The debugger's symbol, moved to where this libc was loaded if it belongs to another copy (dlmopen)."""
    symbol = target.symbol("__curbrk")
    if symbol is None or any(region.contains(symbol.address) for region in libc.data):
        return symbol.address if symbol else None
    copy = module_at(target, memory, regions, symbol.address)
    if libc.base is None or copy.base is None or copy.build_id != libc.build_id or copy.build_id is None:
        return None
    return symbol.address - copy.base + libc.base


def _by_mapping(main: ArenaHeader, regions: Sequence[Region]) -> Optional[int]:
    """A break that serves systrim as well as the real one, from the mapping that top ends in.

    top ends at a page's edge and never beyond the break, so the mapping ends there exactly if the break does.
    """
    if main.top_bytes is None:
        return None
    end = main.top + main.top_bytes
    here = next((region for region in regions if region.contains(end - 1)), None)
    if not main.contiguous or here is None or any(region.start == end for region in regions):
        return None
    return here.end
