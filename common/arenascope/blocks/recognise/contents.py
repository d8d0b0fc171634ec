"""What a block holds where nothing tells whose it is: text, zeros, addresses."""

from __future__ import annotations

import re
from typing import Callable, Optional, Sequence

LOOKED_AT = 256
"""So much of a block is looked at, from its start."""
SHORTEST = 4
"""Letters: fewer are a number as well."""
_WHITE = b"\t\n\r\x0b\x0c\x1b"
PLAIN = bytes(range(32, 127)) + _WHITE
LETTERS = re.compile(b"[%s]{%d,}" % (re.escape(PLAIN), SHORTEST)).match
"""Of plain text, as far as it goes."""
ENCODINGS = ("ASCII", "UTF-8", "UTF-16", "UTF-32")
_OTHERS = bytes(byte for byte in PLAIN if not chr(byte).isalpha())
STARTS = bytes(int(not byte or byte >= 0xC2 or byte in PLAIN) for byte in range(256))
"""With which bytes text can begin: 0 is the upper half of a wide letter."""


def text_in(data: bytes, start: int, end: int) -> Optional[str]:
    """The encoding of the text that takes up most of a block, of which data[start:end] is the beginning."""
    stop = data.find(b"\0", start, end)
    if stop < 0:
        stop = end
    if stop - start >= SHORTEST:
        return _narrow(data[start:stop], stop == end) if _fills(data, start, stop, end) else None
    return _wide(data[start:end]) if end - start > 8 else None


def _narrow(text: bytes, cut: bool) -> Optional[str]:
    """`cut`: it may go on."""
    rest = text.translate(None, PLAIN)
    if not rest:
        return "ASCII"
    if rest.isascii() or len(text.decode("utf-8", "ignore")) < SHORTEST:
        return None
    try:
        text.decode()
    except UnicodeDecodeError as error:
        # what is looked at may end within a letter
        if not cut or error.start < len(text) - 3 or error.reason != "unexpected end of data":
            return None
    return "UTF-8"


def _fills(data: bytes, start: int, stop: int, end: int) -> bool:
    """What follows text up to `stop` is less, or nothing: a number in front of other things can look like letters."""
    return 2 * stop >= start + end or not data[stop:end].strip(b"\0")


def _wide(data: bytes) -> Optional[str]:
    """Latin letters of two or four bytes; data is in the order of this machine's numbers, so both orders are tried."""
    # one look at the first two letters of either order: nearly nothing has this form
    if not (
        (data[0] and data[2:5:2].strip(b"\0") and not data[1:8:2].strip(b"\0"))
        or (not data[0] and data[1:4].strip(b"\0"))
    ):
        return None
    for size, name in ((2, "UTF-16"), (4, "UTF-32")):
        for low in (0, size - 1):
            letters = data[low : len(data) // size * size : size]
            end = letters.find(b"\0")
            end = len(letters) if end < 0 else end
            # small numbers have the form of letters, too
            if letters[:end].translate(None, PLAIN) or len(set(letters[:end].translate(None, _OTHERS))) < SHORTEST:
                continue
            others = b"".join(data[place : size * end : size] for place in range(size) if place != low)
            if not others.strip(b"\0") and _fills(data, 0, size * end, len(data)):
                return name
    return None


def are_addresses(words: Sequence[int], low: int, high: int, align: int, is_data: Callable[[int], bool]) -> bool:
    """Whether most of a block's words that are not 0 point into the heaps, and enough of them."""
    # few blocks have any: these are told at once
    if not (low <= words[0] < high or low <= words[1] < high or low <= words[2] < high):
        return False
    some = [word for word in words if word]
    inside = [word for word in some if low <= word < high and not word % align]
    if len(inside) < 3 or 4 * len(inside) < 3 * len(some) or 2 * len(some) < len(words):
        return False
    return 4 * sum(map(is_data, inside)) >= 3 * len(some)
