"""Conditions on members, as --where has them: `closed == 1 and fd < 0`.

    members        fd   peer.port   slots[3].used   name of a bit-field   of a container or a flexible array: its count
    constants      1   0x1f   -1.5   true   'c'   "text"   null   None   an enumerator, or a variant of Rust's
    comparisons    == != < <= > >=   is   is not   a member alone: it is not 0
    joined by      and or not ( )   && || !

Nothing is called or evaluated: a condition becomes a list of steps for the engine, which goes through all objects.
"""

from __future__ import annotations

import re
import struct
from typing import Literal, NamedTuple, Optional, Sequence, Union

from ...base.errors import UsageError
from ...base.printable import first_few
from ...engine import TypesQuestion
from .members import ARRAY, CHARACTERS, CONTENTS, UNSIGNED, VARIANT, VIEW, MemberPlace, MemberReading, TypeMembers

TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:0[xX][0-9a-fA-F]+|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+)(?![\w.]))
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[A-Za-z_$][\w$]*(?:(?:::|\.)[\w$]+|\[\d+\])*)
    |(?P<sign>==|!=|<=|>=|<|>|&&|\|\||!|\(|\)|-)
    )""",
    re.VERBOSE,
)
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
"""In the order of the engine's numbers."""
TURNED = ("==", "!=", ">", ">=", "<", "<=")
"""The same with what is compared in the other order."""
MEANT = {"&&": "and", "||": "or", "!": "not"}
WORDS = ("and", "or", "not", "is")
CONSTANTS: dict[str, Union[int, None]] = {
    "true": 1,
    "false": 0,
    "True": 1,
    "False": 0,
    "null": None,
    "NULL": None,
    "nullptr": None,
    "None": None,
}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
MOST_TOKENS = 1000
DEEPEST = 50
"""Parentheses in each other."""
FEW = 12
"""So many members are named where there is no such one."""
STEPS = ("compare", "and", "or", "not")
EXAMPLE = "--where 'closed == 1 and fd < 0'"
LEAST, MOST = -(1 << 64), 1 << 64
"""Numbers beyond are those of no member."""

Constant = Union[int, float, bytes, None]


class Token(NamedTuple):
    kind: Literal["number", "text", "name", "sign", "end"]
    text: str
    at: int


class Term(NamedTuple):
    """What is compared: a name, or a constant."""

    name: str
    """ "": it is a constant. A word such as "null" is both: a member may have that name."""
    value: Constant = None


class Compared(NamedTuple):
    left: Term
    sign: str
    right: Term


Step = Union[Compared, Literal["and", "or", "not"]]


class ObjectCondition(NamedTuple):
    """What was parsed, each operation behind what it joins."""

    text: str
    steps: Sequence[Step]

    @property
    def names(self) -> list[str]:
        """What may be members."""
        terms = (term for step in self.steps if isinstance(step, Compared) for term in (step.left, step.right))
        return [*dict.fromkeys(term.name for term in terms if term.name)]


class CompiledStep(NamedTuple):
    """A comparison by the engine, or what joins two; of `and`, `or` and `not` no more than the number counts."""

    number: int
    left: Union[MemberReading, Constant] = None
    comparison: int = 0
    right: Union[MemberReading, Constant] = None


class Compiled(NamedTuple):
    """A condition on the objects of one type; no steps: none."""

    steps: Sequence[CompiledStep]

    def put(self, question: TypesQuestion) -> None:
        question.put(len(self.steps))
        for step in self.steps:
            question.put(step.number)
            if not step.number:
                _put(question, step.left)
                question.put(step.comparison)
                _put(question, step.right)


def _put(question: TypesQuestion, operand: Union[MemberReading, Constant]) -> None:
    if isinstance(operand, MemberReading):
        question.put(0)
        operand.put(question)
    elif operand is None:
        question.put(1)
    elif isinstance(operand, float):
        question.put(3, *struct.unpack("=q", struct.pack("=d", operand)))
    elif isinstance(operand, int):
        question.put(2, operand >> 64, operand & (1 << 64) - 1)
    else:
        question.put(4)
        question.string(operand)


class ConditionError(UsageError):
    """It is no condition, or says something that no object can be asked for."""

    def __init__(self, why: str, hint: Optional[str] = None) -> None:
        super().__init__(f"--where: {why}", hint)


def parse(text: str) -> ObjectCondition:
    """ConditionError if it is none."""
    parser = _Parser(text)
    parser.joined(0)
    parser.end()
    return ObjectCondition(text, parser.steps)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._at = text, _tokens(text), 0
        self.steps: list[Step] = []

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> bool:
        token = self._next
        taken = token.kind in ("sign", "name") and MEANT.get(token.text, token.text) in texts
        self._at += taken
        return taken

    def end(self) -> None:
        if self._next.kind != "end":
            raise self._wrong("and, or, or nothing more")

    def _wrong(self, wanted: str) -> ConditionError:
        token = self._next
        found = f"{token.text} in column {token.at + 1}" if token.kind != "end" else "its end"
        return ConditionError(f"{wanted} is expected in place of {found}", EXAMPLE)

    def joined(self, depth: int) -> None:
        """By `or`, or by nothing."""
        self._all(depth)
        while self._take("or"):
            self._all(depth)
            self.steps.append("or")

    def _all(self, depth: int) -> None:
        self._one(depth)
        while self._take("and"):
            self._one(depth)
            self.steps.append("and")

    def _one(self, depth: int) -> None:
        if depth > DEEPEST:
            raise ConditionError(f"more than {DEEPEST} parentheses in each other")
        if self._take("not"):
            self._one(depth + 1)
            self.steps.append("not")
        elif self._take("("):
            self.joined(depth + 1)
            if not self._take(")"):
                raise self._wrong(")")
        else:
            self._comparison()

    def _comparison(self) -> None:
        left, sign, right = self._term(), "!=", Term("", 0)
        if self._take("is"):
            sign = "!=" if self._take("not") else "=="
            right = self._term()
        elif self._next.kind == "sign" and self._next.text in COMPARISONS:
            sign = self._next.text
            self._at += 1
            right = self._term()
        self.steps.append(Compared(left, sign, right))

    def _term(self) -> Term:
        minus = self._take("-")
        token = self._next
        if token.kind == "number" or minus:
            if token.kind != "number":
                raise self._wrong("a number")
            self._at += 1
            number = _number(token.text)
            if not LEAST <= number <= MOST and isinstance(number, int):
                raise ConditionError(f"{token.text} is larger than any member")
            return Term("", -number if minus else number)
        if token.kind == "text":
            self._at += 1
            return Term("", _letters(token.text).encode("utf-8", "surrogateescape"))
        if token.kind != "name" or token.text in WORDS:
            raise self._wrong("a member or a value")
        self._at += 1
        return Term(token.text, CONSTANTS.get(token.text))


def _tokens(text: str) -> list[Token]:
    found, at = list[Token](), 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise ConditionError(f"{text[at]} in column {at + 1} is no part of a condition", EXAMPLE)
        kind = match.lastgroup
        assert kind in ("number", "text", "name", "sign")
        found.append(Token(kind, match[kind], match.start(kind)))  # type: ignore[arg-type]
        at = match.end()
        if len(found) > MOST_TOKENS:
            raise ConditionError("it is too long")
    return [*found, Token("end", "", len(text))]


def _number(text: str) -> Union[int, float]:
    if text[:2].lower() == "0x":
        return int(text, 16)
    return int(text) if text.isdigit() else float(text)


def _letters(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), quoted[1:-1], flags=re.DOTALL)


# for the objects of one type


class UnknownMember(Exception):
    """The type has no such member: the name."""


class _Operand(NamedTuple):
    name: str
    place: Optional[MemberPlace]
    reading: Optional[MemberReading]
    value: Constant = None


def compiled(condition: ObjectCondition, members: TypeMembers, type: int) -> Compiled:
    """UnknownMember; ConditionError where a member cannot be compared with that."""
    steps = []
    for step in condition.steps:
        if isinstance(step, Compared):
            steps.append(_compared(step, members, type))
        else:
            steps.append(CompiledStep(STEPS.index(step)))
    return Compiled(steps)


def _compared(step: Compared, members: TypeMembers, type: int) -> CompiledStep:
    left, right = (_operand(each, members, type) for each in (step.left, step.right))
    sign = step.sign
    if left.place is None:
        left, right = right, left
        sign = TURNED[COMPARISONS.index(sign)]
    if left.place is None or left.reading is None:
        # an enumerator needs a member beside it
        raise UnknownMember(step.left.name or step.right.name)
    comparison = COMPARISONS.index(sign)
    if right.place is not None:
        return CompiledStep(0, left.reading, comparison, right.reading)
    reading, value = _matched(members, left.place, left.reading, right)
    return CompiledStep(0, reading, comparison, value)


def _operand(term: Term, members: TypeMembers, type: int) -> _Operand:
    place = members.called(type, term.name) if term.name and "::" not in term.name else None
    if place is None:
        return _Operand(term.name, None, None, term.value)
    return _Operand(term.name, place, members.reading(place))


def _matched(
    members: TypeMembers, place: MemberPlace, reading: MemberReading, constant: _Operand
) -> tuple[MemberReading, Constant]:
    """How a member is read, and what it is compared with."""
    form, value = members.form(place), constant.value
    enumerators = members.enumerators(place) if form == "enum" else {}
    name = constant.name.rpartition("::")[2].rpartition(".")[2]
    if isinstance(value, bytes) and value.decode("utf-8", "replace") in enumerators:
        name = value.decode("utf-8", "replace")
    if name in enumerators:
        return reading, enumerators[name]
    if reading.form == VARIANT or (enumerators and constant.name and constant.name not in CONSTANTS):
        raise ConditionError(f"{place.name} is one of {first_few([*enumerators], FEW)}")
    if constant.name and constant.name not in CONSTANTS:
        raise UnknownMember(constant.name)
    if constant.name and value is None:
        if reading.form == CONTENTS:
            return reading, 0
        if form != "pointer" and reading.form != CHARACTERS:
            raise ConditionError(f"{place.name} is no pointer")
        return _as_pointer(reading), 0
    if isinstance(value, bytes):
        if reading.form in (CHARACTERS, ARRAY, CONTENTS, VIEW):
            return reading, value
        letter = value.decode("utf-8", "replace")
        if len(letter) != 1 or form not in ("character", "integer"):
            raise ConditionError(f"{place.name} is no text")
        return reading, ord(letter)
    return _as_pointer(reading) if reading.form == CHARACTERS else reading, value


def _as_pointer(reading: MemberReading) -> MemberReading:
    return reading._replace(form=UNSIGNED) if reading.form == CHARACTERS else reading
