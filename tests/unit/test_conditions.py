"""What --where takes for a condition, and what it says of what is none."""

from __future__ import annotations

import pytest

from arenascope.blocks.declared.conditions import MOST_TOKENS, Compared, ConditionError, Term, parse
from arenascope.blocks.declared.matching_objects import asked_condition

CLOSED, OPEN = Compared(Term("closed"), "==", Term("", 1)), Compared(Term("fd"), "<", Term("", 0))


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("closed == 1", [CLOSED]),
        ("closed==1&&fd<0", [CLOSED, OPEN, "and"]),
        ("closed == 1 and not fd < 0", [CLOSED, OPEN, "not", "and"]),
        ("fd < 0 or closed == 1 and fd < 0", [OPEN, CLOSED, OPEN, "and", "or"]),
        ("(fd < 0 || closed == 1) and !(fd < 0)", [OPEN, CLOSED, "or", OPEN, "not", "and"]),
        ("a.b[3].c >= -0x1f", [Compared(Term("a.b[3].c"), ">=", Term("", -31))]),
        ("pair.0 != 1.5e3", [Compared(Term("pair.0"), "!=", Term("", 1500.0))]),
        ("last is None", [Compared(Term("last"), "==", Term("None"))]),
        ("last is not State::DONE", [Compared(Term("last"), "!=", Term("State::DONE"))]),
        ("open", [Compared(Term("open"), "!=", Term("", 0))]),
        ("ready == true", [Compared(Term("ready"), "==", Term("true", 1))]),
        ("used < room", [Compared(Term("used"), "<", Term("room"))]),
        (r'name == "a \"b\"\n" ', [Compared(Term("name"), "==", Term("", b'a "b"\n'))]),
        ("kind == 'c'", [Compared(Term("kind"), "==", Term("", b"c"))]),
        ("name == 'and (or'", [Compared(Term("name"), "==", Term("", b"and (or"))]),
    ],
)
def test_a_condition_becomes_steps(text: str, steps: list[object]) -> None:
    assert parse(text).steps == steps


@pytest.mark.parametrize(
    "text",
    [
        "",
        "closed ==",
        "closed == 1 and",
        "(closed == 1",
        "closed == 1)",
        "closed = 1",
        "f(closed)",
        "__import__('os')",
        "closed == 1; fd",
        "1 < fd < 3",
        "not",
        "is None",
        "name == 'open",
        "fd == 0x",
        "fd == 12ab",
        "fd == - -1",
        "fd == 99999999999999999999999999",
        "lambda: 1",
        "a.b.",
        "a[b] == 1",
        "\0",
        "(" * 60 + "fd" + ")" * 60,
        "not " * 60 + "fd",
        " and ".join(["fd"] * MOST_TOKENS),
    ],
)
def test_what_is_none_is_said_in_one_line(text: str) -> None:
    with pytest.raises(ConditionError) as found:
        parse(text)
    assert "\n" not in str(found.value)
    assert found.value.id == "usage"


@pytest.mark.parametrize(
    ("text", "beside", "type"),
    [
        ("Session: closed == 1", None, "Session"),
        ("struct app::Session : closed == 1", None, "struct app::Session"),
        ("closed == 1", "Session", "Session"),
        ("closed == 1", None, None),
        ("state == State::DONE", None, None),
    ],
)
def test_a_type_may_stand_in_front(text: str, beside: str, type: str) -> None:
    asked = asked_condition(text, beside)
    assert asked.type == type
    assert asked.condition.text == text
    assert len(asked.condition.steps) == 1
