"""Pointers that the kernel keeps for a process: what epoll_ctl(2) was given as epoll_data, timer_create(2) as value."""

from __future__ import annotations

import os
import re
from typing import Iterator

from ..kernel_words import Timer, Watched
from .procfiles import read_bytes

ROW = re.compile(rb"^tfd:\s*(\d+)\s+events:\s*[0-9a-f]+\s+data:\s*([0-9a-f]+)", re.MULTILINE)
EPOLL = "anon_inode:[eventpoll]"
TIMER = re.compile(rb"^ID: (\d+)\nsignal: \d+/([0-9a-f]+)$", re.MULTILINE)


def epoll_words(pid: int) -> list[Watched]:
    """Of a process on this machine; [] where /proc does not show them."""
    try:
        return list(_rows(f"/proc/{pid}"))
    except OSError:
        return []


def _rows(folder: str) -> Iterator[Watched]:
    for number in os.listdir(f"{folder}/fd"):
        try:
            if os.readlink(f"{folder}/fd/{number}") != EPOLL:
                continue
            with open(f"{folder}/fdinfo/{number}", "rb") as file:
                told = file.read()
        except OSError:
            continue  # closed meanwhile
        for row in ROW.finditer(told):
            yield Watched(int(number), int(row[1]), int(row[2], 16))


def timer_words(pid: int) -> list[Timer]:
    """[] where the kernel has no such file: it needs CONFIG_CHECKPOINT_RESTORE."""
    try:
        told = read_bytes(f"/proc/{pid}/timers")
    except OSError:
        return []
    return [Timer(int(row[1]), int(row[2], 16)) for row in TIMER.finditer(told)]
