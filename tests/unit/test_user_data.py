"""Where the program's own data may be shown, and how it is written."""

from __future__ import annotations

import pytest

from arenascope.base.printable import is_cut, is_plain, quoted, user_data


@pytest.mark.parametrize(
    ("with_values", "redacted", "screen", "documents"),
    [(False, False, True, False), (True, False, True, True), (False, True, False, False), (True, True, False, False)],
)
def test_documents_have_it_on_request_alone_and_nothing_of_what_is_redacted(
    with_values: bool, redacted: bool, screen: bool, documents: bool
) -> None:
    told = user_data(with_values=with_values, redacted=redacted)
    assert (told.on_screen, told.in_documents) == (screen, documents)


@pytest.mark.parametrize(
    ("data", "text", "plain"),
    [
        (b"order-10060255", '"order-10060255"', True),
        (b"", '""', True),
        (b'say "a\\b"\n\t', '"say \\"a\\\\b\\"\\n\\t"', False),
        (b"\x1b[31mred\x7f\0", '"\\x1b[31mred\\x7f\\x00"', False),
        ("Zürich".encode(), '"Zürich"', True),
        (b"\xff\xc3", '"\\xff\\xc3"', False),
        ("a\u202eb\u200b".encode(), '"a\\u202eb\\u200b"', False),
        ("\U000e0041".encode(), '"\\U000e0041"', False),
        (b"x" * 40, f'"{"x" * 40}"', True),
        (b"x" * 41, f'"{"x" * 40}"...', True),
        ("ü".encode() * 41, f'"{"ü" * 40}"...', True),
    ],
)
def test_text_is_cut_and_has_no_control_characters(data: bytes, text: str, plain: bool) -> None:
    assert quoted(data) == text
    assert is_plain(data) == plain
    assert is_cut(data) == text.endswith("...")
