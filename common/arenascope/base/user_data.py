"""The program's own data: keys of its containers, values of its members, texts; and where they may be shown.

The user's own screen shows them. Output to be sent on (JSON, pages, profiles, snapshots) has them only with
`--with-values`, and redacted images never have any.
"""

from __future__ import annotations

from typing import NamedTuple

from .printable import MARK, one_line

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
