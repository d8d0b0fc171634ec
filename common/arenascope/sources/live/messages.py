"""Messages between a hold (process_hold.py) and its guard: a record for each order and each answer, over a pipe.

marshal, which every Python has loaded, encodes the records' fields: numbers, bytes, texts and containers of them.
"""

from __future__ import annotations

import marshal
import os
import select
from typing import NamedTuple, Optional, Sequence, Union, get_args


class Hold(NamedTuple):
    pid: int
    born: int
    at_most: float


class Release(NamedTuple):
    pass


class GetRegisters(NamedTuple):
    tids: Optional[Sequence[int]] = None
    """None: of all threads."""
    every: bool = False
    """Whether floating point and vectors are asked for, too."""


class GetStands(NamedTuple):
    """Asks for the threads that may be made to call."""

    general_bytes: int
    kinds: Sequence[int]
    tids: Optional[Sequence[int]] = None


class RunAlone(NamedTuple):
    """Lets only this thread run, in short slices, until it has moved."""

    tid: int
    pieces: Sequence[float]


class MakeCall(NamedTuple):
    """Makes a thread go through prepared steps, then restores it."""

    tid: int
    general: bytes
    """Its current registers."""
    back: bytes
    """Its registers after the call."""
    sets: Sequence[tuple[int, bytes]]
    mask: int
    meanwhile: int
    """The signal mask during the steps."""
    block: tuple[int, bytes]
    room: int
    """How many bytes below the block are used, too."""
    entries: Sequence[bytes]
    stops: Sequence[tuple[int, int]]
    stands_in: tuple[int, int]
    """The offsets of the program counter and the stack pointer in the general registers."""
    errno: tuple[int, bytes]
    at_end: int
    """The signal at which it stops after each step."""
    seconds: float


class HoldBegun(NamedTuple):
    how: str


class Refused(NamedTuple):
    message: str
    hint: Optional[str] = None


class Released(NamedTuple):
    seconds: float
    """How long the process was held."""


class Registers(NamedTuple):
    threads: Sequence[tuple[int, bytes, Sequence[tuple[str, int, bytes]]]]
    """The fields of RegisterSets, and of its RegisterSet."""


class Stands(NamedTuple):
    threads: Sequence[tuple[int, bytes, dict[int, bytes], int, bool]]
    """For each thread: its general registers, other sets by kind, signal mask, and whether it can call: not at a
    signal's delivery, and in no restartable sequence (rseq)."""


class Ran(NamedTuple):
    moved: bool
    """Whether it has moved or ended."""
    same: bool
    """Whether all other threads are the same: threads that it has started meanwhile are held, too."""


class CallEnded(NamedTuple):
    became: str
    """One of thread_calls.py's results."""
    number: int
    """The signal's number, or the wait status of a process that ended."""


Order = Union[Hold, Release, GetRegisters, GetStands, RunAlone, MakeCall]
Answer = Union[HoldBegun, Refused, Released, Registers, Stands, Ran, CallEnded]
ORDERS: tuple[type[Order], ...] = get_args(Order)
ANSWERS: tuple[type[Answer], ...] = get_args(Answer)
"""The kinds of answers; a message has the index of its kind."""


def send_order(file: int, order: Order) -> None:
    _send(file, ORDERS.index(type(order)), tuple(order))


def send_answer(file: int, answer: Answer) -> None:
    _send(file, ANSWERS.index(type(answer)), tuple(answer))


def receive_order(file: int) -> Order:
    """Raises EOFError if the other end is closed."""
    number, fields = marshal.loads(_receive(file, None))
    order: Order = ORDERS[number](*fields)
    return order


def receive_answer(file: int, seconds: float) -> Answer:
    """Raises EOFError if the other end is closed; TimeoutError if it stays silent; ValueError if a part is missing."""
    data = _receive(file, seconds)
    try:
        number, fields = marshal.loads(data)
        answer: Answer = ANSWERS[number](*fields)
        return answer
    except (EOFError, TypeError, IndexError):
        raise ValueError from None


def _send(file: int, number: int, fields: tuple[object, ...]) -> None:
    data = marshal.dumps((number, fields))  # type: ignore[arg-type]  # the records have no other fields
    # the registers of thousands of threads are megabytes, of which a pipe takes 64 KiB at a time
    left = memoryview(len(data).to_bytes(4, "little") + data)
    while left:
        left = left[os.write(file, left) :]


def _receive(file: int, seconds: Optional[float]) -> bytes:
    return _receive_bytes(file, int.from_bytes(_receive_bytes(file, 4, seconds), "little"), seconds)


def _receive_bytes(file: int, size: int, seconds: Optional[float]) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not readable(file, None if seconds is None else int(seconds * 1000)):
            raise TimeoutError
        part = os.read(file, size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def readable(file: int, milliseconds: Optional[int]) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(milliseconds))
