"""Pointers that the kernel keeps for a process: what epoll_ctl(2) was given as epoll_data."""

from __future__ import annotations

import os
import re
from typing import Iterator

from ...target import Watched

ROW = re.compile(rb"^tfd:\s*(\d+)\s+events:\s*[0-9a-f]+\s+data:\s*([0-9a-f]+)", re.MULTILINE)
EPOLL = "anon_inode:[eventpoll]"


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
