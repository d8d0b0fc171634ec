"""Reads the environment that a process was started with."""

from __future__ import annotations

import os
import struct
from typing import Callable, Iterable, Mapping, Optional

from ...base.errors import MemoryReadError
from .elf_file import AT_ENTRY, AT_EXECFN, AT_PHDR, AT_PHNUM, AT_PLATFORM, AT_RANDOM, Read

CORRECTED = (AT_PHDR, AT_PHNUM, AT_ENTRY, AT_EXECFN)
"""Entries that ld.so corrects in the vector if it was started as the program itself."""
# exec allows three quarters of the default 8 MiB stack for arguments and environment together (_STK_LIM)
ARGUMENT_LIMIT = 6 << 20
STRING_LIMIT = 128 << 10  # MAX_ARG_STRLEN
MOST_PAIRS = 64
"""The most pairs of the auxiliary vector: the kernel writes some twenty."""
MOST_PLACES = 1000
"""The most matches that are compared: a pair with a unique value is hardly met twice on a stack."""
PAGE = 4096


def parse_block(data: bytes) -> Optional[dict[str, str]]:
    """Parses KEY=VALUE strings, each ended by a zero byte, as in /proc/PID/environ.

    None if there are bytes but no such string: the program has written its title over them (setproctitle).
    """
    variables = _as_mapping(data.split(b"\0"))
    return None if not variables and data.strip(b"\0") else variables


def from_stack(
    read: Read, auxv: Mapping[int, int], auxv_bytes: bytes, pointer_size: int, mark: str
) -> Optional[dict[str, str]]:
    """Reads it from a core's memory: the pointers that exec put below the auxiliary vector on the first stack.

    The vector (create_elf_tables in fs/binfmt_elf.c) is copied there byte for byte from what NT_AUXV saves, so it is
    found by its own bytes; `ld.so PROGRAM` moves it down by the arguments that were its own (_dl_start_args_adjust) and
    corrects it. Walking back over the strings instead would take arguments like --a=b for variables. None if the stack
    is absent or no longer has it.
    """
    word = struct.Struct(mark + ("I" if pointer_size == 4 else "Q"))
    pair = struct.Struct(mark + ("2I" if pointer_size == 4 else "2Q"))
    # a note with a wrong length may end within a pair
    pairs = min(len(auxv) + 1, len(auxv_bytes) // pair.size, MOST_PAIRS)
    saved = list(pair.iter_unpack(auxv_bytes[: pairs * pair.size]))
    anchor = next((auxv[kind] for kind in (AT_EXECFN, AT_RANDOM, AT_PLATFORM) if auxv.get(kind)), None)
    # one that is never corrected, and the same in no other process
    sure = next((index for index, (kind, value) in enumerate(saved) if kind in (AT_RANDOM, AT_PLATFORM) and value), 0)
    if anchor is None or len(saved) <= 1:
        return None

    def is_vector(place: int) -> bool:
        start = place - sure * pair.size
        try:
            data = read(start - pointer_size, pointer_size + len(saved) * pair.size)
        except MemoryReadError:
            return False
        # the word below the vector is envp's NULL
        entries = pair.iter_unpack(data[pointer_size:])
        return not any(data[:pointer_size]) and all(
            there == known or (there[0] == known[0] and known[0] in CORRECTED) for there, known in zip(entries, saved)
        )

    place = _find_below(read, anchor, pair.pack(*saved[sure]), is_vector)
    if place is None:
        return None
    strings: list[bytes] = []
    left = ARGUMENT_LIMIT
    place -= sure * pair.size + 2 * pointer_size
    try:
        # each pointer may lead to the same string
        while left > 0:
            pointer = word.unpack(read(place, pointer_size))[0]
            # argv's NULL; a program that was given no variable has it right there
            if pointer == 0:
                break
            strings.append(read_string(read, pointer))
            left -= len(strings[-1]) + 1 + pointer_size
            place -= pointer_size
    except MemoryReadError:
        return None
    strings.reverse()
    variables = _as_mapping(strings)
    return None if strings and not variables else variables


def _as_mapping(strings: Iterable[bytes]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for string in strings:
        key, equals, value = string.partition(b"=")
        # getenv takes the first of two
        if key and equals:
            variables.setdefault(os.fsdecode(key), os.fsdecode(value))
    return variables


def _find_below(read: Read, anchor: int, needle: bytes, fits: Callable[[int], bool]) -> Optional[int]:
    """Returns the highest address below `anchor` where `needle` lies, searching page by page downwards."""
    data, start, left = b"", anchor, MOST_PLACES
    while anchor - start < ARGUMENT_LIMIT + PAGE:
        lower = (start - 1) // PAGE * PAGE
        try:
            block = read(lower, start - lower)
        except MemoryReadError:
            return None
        # what the pages above can add to a match that begins in this one
        data = block + data[: len(needle) - 1]
        at = data.rfind(needle)
        while at >= 0:
            if fits(lower + at):
                return lower + at
            left -= 1
            if not left:
                return None
            at = data.rfind(needle, 0, at + len(needle) - 1)
        start = lower
    return None


def read_string(read: Read, address: int, longest: int = STRING_LIMIT) -> bytes:
    """Reads a string up to its zero byte, page by page; MemoryReadError if there is none."""
    data = b""
    while len(data) < longest:
        end = (address + len(data)) // PAGE * PAGE + PAGE
        data += read(address + len(data), end - address - len(data))
        stop = data.find(b"\0")
        if stop >= 0:
            return data[:stop]
    return data
