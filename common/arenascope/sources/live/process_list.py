"""The processes of this machine, as one cheap read of /proc/PID/stat tells each."""

from __future__ import annotations

import os
from typing import Iterator, NamedTuple, Optional

from .processes_by_name import other_pids
from .procfiles import PF_KTHREAD, named_stat


class ListedProcess(NamedTuple):
    pid: int
    name: str
    rss: int
    """As ps and top show it: the kernel's own counter, which may lag behind by some pages for each processor."""
    started: int
    """With the pid, what no other process has."""
    program: bytes
    """Where its code and its stack lie: another after exec, or the same program at the same places."""


def list_processes(page_size: int) -> Iterator[ListedProcess]:
    """By pid, all but this one, kernel threads and those that have ended; of other users, too."""
    for pid in sorted(other_pids()):
        listed = _listed(pid, page_size)
        if listed is not None:
            yield listed


def _listed(pid: int, page_size: int) -> Optional[ListedProcess]:
    raw, fields = named_stat(f"/proc/{pid}")
    # proc(5) counts from 1, and the state, which is the third, comes first here
    if not fields or fields[0] in (b"Z", b"X") or int(fields[6]) & PF_KTHREAD or not int(fields[20]):
        return None
    name = os.fsdecode(raw)
    program = b" ".join((fields[23], fields[24], fields[25]))
    return ListedProcess(pid, name, rss=int(fields[21]) * page_size, started=int(fields[19]), program=program)
