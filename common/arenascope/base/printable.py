"""Makes text safe to write. Names of threads and files are bytes: some are not UTF-8, some control a terminal, some
reverse the direction of text or are invisible."""

from __future__ import annotations

import codecs
import os
import re
import sys
from typing import NamedTuple, Sequence

MARK = "\ufffd"
# Unicode's marks of direction, its own ends of lines, and what has no width or shows nothing; honest words have joiners
_UNSEEN = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# the surrogates that os.fsdecode makes of other bytes; control characters
_NOT_IN_TEXTS = re.compile(f"[\ud800-\udfff{_UNSEEN}\0-\x08\x0b-\x1f\x7f-\x9f]")
_NOT_IN_LINES = re.compile(f"[\ud800-\udfff{_UNSEEN}\0-\x08\x0a-\x1f\x7f-\x9f]")
_NOT_IN_NAMES = re.compile(f"[\ud800-\udfff{_UNSEEN}\0-\x1f\x7f-\x9f]")
PLAIN = {
    "\u2588": "#",
    "\u2593": "%",
    "\u2592": "+",
    "\u2591": ".",
    "\u2192": ">",
    "\u2026": ".",
    "\u2264": "<",
    "\u2265": ">",
}
"""Replacements of the same width for terminals that lack bars, arrows and bounds."""


def printable(text: str) -> str:
    """Cleans text of several lines."""
    # most is ASCII; what Python calls printable can be invisible
    return text if text.isascii() and text.isprintable() else _NOT_IN_TEXTS.sub(MARK, text)


def clean_line(text: str) -> str:
    """Cleans a line, in which tabs may separate cells."""
    return text if text.isascii() and text.isprintable() else _NOT_IN_LINES.sub(MARK, text)


def one_line(text: str) -> str:
    """Cleans a name, which must neither end a line nor colour it."""
    return text if text.isascii() and text.isprintable() else _NOT_IN_NAMES.sub(MARK, text)


def first_few(names: Sequence[str], most: int = 4) -> str:
    """Shortens a list that may be long."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def make_streams_safe() -> None:
    """Prepares our own program's streams: none is closed, and no character makes a write fail."""
    codecs.register_error(__name__, _plainly)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # closed by whoever started this: the next file to be opened would take its place
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - lives as long as the program
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=__name__)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


LONGEST = 40
"""The most characters of a text that are shown."""
CUT = "..."
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class UserData(NamedTuple):
    """The places where one command may show the program's data."""

    on_screen: bool
    in_documents: bool

    @property
    def anywhere(self) -> bool:
        """Whether it is worth reading at all."""
        return self.on_screen or self.in_documents


NOWHERE = UserData(False, False)


def user_data(*, with_values: bool, redacted: bool) -> UserData:
    """Decides that from the option `with_values`, and `redacted` of the image."""
    return NOWHERE if redacted else UserData(on_screen=True, in_documents=with_values)


def quoted(data: bytes) -> str:
    r"""Quotes a text as C and GDB do: "order\n", with "..." behind its end if it was cut."""
    # a character has four bytes at most
    text = data[: 4 * (LONGEST + 1)].decode("utf-8", "surrogateescape")
    shown = "".join(_escaped(each) for each in text[:LONGEST])
    return f'"{shown}"{CUT if len(text) > LONGEST else ""}'


def is_plain(data: bytes) -> bool:
    """Tells whether it is text of visible characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return all(each.isprintable() and one_line(each) == each for each in text)


def is_cut(data: bytes) -> bool:
    """Tells whether `quoted` shows only its beginning."""
    return len(data.decode("utf-8", "surrogateescape")) > LONGEST


def _escaped(letter: str) -> str:
    if letter in ESCAPES:
        return ESCAPES[letter]
    if letter.isprintable() and one_line(letter) != MARK:
        return letter
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
