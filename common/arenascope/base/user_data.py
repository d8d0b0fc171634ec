"""The program's own data: keys of its containers, values of its members, texts. Where it may be shown, and how.

A user's own screen has it. What is made to be sent on (JSON, pages, profiles, snapshots) has it only with
`--with-values`, and nothing that was redacted has any.
"""

from __future__ import annotations

from typing import NamedTuple

from .printable import MARK, one_line

LONGEST = 40
"""So many characters of a text are shown."""
CUT = "..."
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class UserData(NamedTuple):
    """Where one command may show it."""

    on_screen: bool
    in_documents: bool

    @property
    def anywhere(self) -> bool:
        """Whether it is worth reading."""
        return self.on_screen or self.in_documents


NOWHERE = UserData(False, False)


def user_data(*, with_values: bool, redacted: bool) -> UserData:
    """`with_values`: the option; `redacted`: of the image."""
    return NOWHERE if redacted else UserData(on_screen=True, in_documents=with_values)


def quoted(data: bytes) -> str:
    """A text as C and GDB write one: "order\\n", and "..." behind its end where it was cut."""
    # a character has four bytes at most
    text = data[: 4 * (LONGEST + 1)].decode("utf-8", "surrogateescape")
    shown = "".join(_escaped(each) for each in text[:LONGEST])
    return f'"{shown}"{CUT if len(text) > LONGEST else ""}'


def is_plain(data: bytes) -> bool:
    """Whether it is text in characters that can be seen."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return all(each.isprintable() and one_line(each) == each for each in text)


def is_cut(data: bytes) -> bool:
    """Whether `quoted` says only how it begins."""
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
