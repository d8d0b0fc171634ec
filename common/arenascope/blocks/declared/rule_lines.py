"""Rules of the user's: lines that say what a member leads to whose type tells nothing.

    dictEntry.v.val = redisObject when ->refcount > 0
    dictEntry.v.val = redisObject and more when ->encoding == 8
    redisObject.ptr = dict when .encoding == 2
    redisObject.ptr = char[] when .encoding == 0
    event.data = session.link when .kind == SESSION and .data != 0
    list_head in job.link

A member leads to an object, to one with more behind it, to several (T[]), to characters, or to a member of an object.
With `when` only where another member of the same object (.member), or of what it leads to (->member), compares so with
a number or an enumerator. `T in S.M`: a pointer to a T that lies in a block leads to the member M of an S. What stands
behind # is for people.
"""

from __future__ import annotations

import re
from typing import Iterator, Literal, NamedTuple, Optional, Union

PLACE = re.compile(r"(?P<holder>[^\s.][^.]*?)\.(?P<member>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
CONDITION = re.compile(r"(\.|->)(\w+(?:\.\w+)*) (==|!=|<|>|<=|>=) (-?\w[\w:]*)")
AND_MORE = " and more"
KEYWORDS = re.compile(r"^(?:struct|union|class|enum) ")
COMMENT = re.compile(r"(?:^|\s)#.*")
CHARACTERS = ("char[]", "unsigned char[]")
MOST_LINES = 4096


class Condition(NamedTuple):
    """What a member has to be."""

    of_target: bool
    """Of the object that is led to, not of the one that leads there."""
    member: str
    sign: str
    value: Union[int, str]


class Rule(NamedTuple):
    """One line."""

    line: int
    text: str
    """As it is written, without what is for people."""
    kind: Literal["leads to", "lies in"]
    holder: str
    """The type that has the member."""
    member: str
    """By its way from there: "v.val"."""
    target: str
    conditions: tuple[Condition, ...] = ()

    @property
    def label(self) -> str:
        """As the member's own names of blocks have it."""
        return f"{self.holder}.{self.member}"


class Unread(NamedTuple):
    """A line that cannot be read, or is about what the program does not have."""

    line: int
    why: str


def read_rules(text: str) -> Iterator[Union[Rule, Unread]]:
    for number, line in enumerate(text.splitlines()[:MOST_LINES], 1):
        said = " ".join(COMMENT.sub("", line).split())
        if said:
            yield _read(number, said)


def _read(number: int, said: str) -> Union[Rule, Unread]:
    place, sign, target = said.partition(" = ")
    target, when, told = target.partition(" when ")
    holder, found = split(place), [CONDITION.fullmatch(each) for each in told.split(" and ")] if when else []
    conditions = [Condition(each[1] == "->", each[2], each[3], _number(each[4])) for each in found if each is not None]
    if sign and holder is not None and target and len(conditions) == len(found):
        return Rule(number, said, "leads to", *holder, target=_plain(target), conditions=tuple(conditions))
    target, sign, place = said.partition(" in ")
    holder = split(place)
    if sign and holder is not None:
        return Rule(number, said, "lies in", *holder, target=_plain(target))
    return Unread(number, f"{said!r} is no rule: TYPE.MEMBER = TYPE is one, TYPE in TYPE.MEMBER another")


def _plain(name: str) -> str:
    return KEYWORDS.sub("", name.strip())


def _number(text: str) -> Union[int, str]:
    """An enumerator's name stays what it is."""
    try:
        return int(text, 0)
    except ValueError:
        return text


def split(place: str) -> Optional[tuple[str, str]]:
    """ "TYPE.MEMBER"."""
    found = PLACE.fullmatch(_plain(place))
    return (found["holder"], found["member"]) if found is not None else None
