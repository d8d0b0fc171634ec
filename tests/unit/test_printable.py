"""What is written of names that would not fit into a line, or would steer a terminal."""

from __future__ import annotations

import pytest

from arenascope.base.printable import one_line, printable
from arenascope.present.shared_text.lines_and_tables import Style, table


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("plain", "plain", "plain"),
        ("é — ≥ █", "é — ≥ █", "é — ≥ █"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab", "two\ufffdlines\ufffdand a tab"),
        ("our \033[1mown\033[0m colour", "our \ufffd[1mown\ufffd[0m colour", "our \ufffd[1mown\ufffd[0m colour"),
        ("a title \033]0;x\007", "a title \ufffd]0;x\ufffd", "a title \ufffd]0;x\ufffd"),
        ("\033[2J\033[31;1m", "\ufffd[2J\ufffd[31;1m", "\ufffd[2J\ufffd[31;1m"),
        ("caf\udce9\x9b31m\r", "caf\ufffd\ufffd31m\ufffd", "caf\ufffd\ufffd31m\ufffd"),
        ("lib\u202egpj.so\u2066\u2069", "lib\ufffdgpj.so\ufffd\ufffd", "lib\ufffdgpj.so\ufffd\ufffd"),
        ("a\u2028line\u200b\ufeff\U000e0041", "a\ufffdline\ufffd\ufffd\ufffd", "a\ufffdline\ufffd\ufffd\ufffd"),
        # letters to Python, which nobody sees
        (
            "lib\u3164\u115f\uffa0.so\ufe0f\U000e0101",
            "lib\ufffd\ufffd\ufffd.so\ufffd\ufffd",
            "lib\ufffd\ufffd\ufffd.so\ufffd\ufffd",
        ),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
    ],
)
def test_text(text: str, line: str, name: str) -> None:
    assert printable(text) == line
    assert one_line(text) == name


def test_a_row_stays_a_row() -> None:
    lines = list(table(Style(), ("name", "number"), [["a\nb", "1"], ["c", "22"]]))
    assert len(lines) == 4
    assert lines[2] == "a\ufffdb        1"
