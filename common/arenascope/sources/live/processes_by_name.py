"""Processes by their name, as /proc shows them at one moment."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from ..elf.elf_notes import undeleted
from .procfiles import PF_KTHREAD, name_of, named_stat, read_bytes, status_row


class Interpreter(NamedTuple):
    called: str
    """What its executable is called; this and the others are patterns."""
    code: str
    """The option behind which there is code, or a module, in place of a file."""
    valued: str
    """Options that take the next word."""
    behind: str = ""
    """The option without which there is no file."""

    def file_in(self, words: Sequence[str]) -> str:
        """What it was started with; "" without a file."""
        if self.behind:
            words = words[words.index(self.behind) :] if self.behind in words else ()
        before = ""
        for word in words[1:]:
            if re.fullmatch(self.code, word):
                return ""
            if word[:1] not in ("-", "+") and not re.fullmatch(self.valued, before):
                return word
            before = word
        return ""


INTERPRETERS = (
    Interpreter(r"(python|pypy)[\d.]*", r"-[bBdEiIOPqRsSuvx]*[cm].*", r"-[WX]|--check-hash-based-pycs"),
    Interpreter(r"perl[\d.]*", r"-[acnpwWlsStTuUX]*[eE].*", r"-I"),
    Interpreter(r"ruby[\d.]*", r"-[alnpsw]*e.*", r"-[CEIr]"),
    Interpreter(r"node|nodejs", r"-[ep]|-pe|--(eval|print)(=.*)?", r"-[rC]|--(require|import|loader|conditions)"),
    Interpreter(r"(ba|da|k|mk|z|a|)sh", r"-[A-Za-z]*[cs]", r"[-+][oO]|--(rcfile|init-file)"),
    Interpreter(r"php[\d.]*", r"-r.*", r"-[cdz]"),
    Interpreter(r"java", r"-version", r"-cp", behind="-jar"),
)


class NamedProcess(NamedTuple):
    pid: int
    resident: int
    """In bytes, as status has it: near enough to tell processes apart."""
    command: str
    """As it was started: its words, with a blank between them."""


def processes_called(name: str) -> list[NamedProcess]:
    """Those of which /proc/PID/comm, the executable's base name or that of the script which it runs is `name`, the
    largest first; never this one."""
    found = [_running(pid) for pid in other_pids() if name in names_of(pid)]
    return sorted((each for each in found if each is not None), key=lambda each: (-each.resident, each.pid))


def other_pids() -> Iterator[int]:
    return (int(each) for each in os.listdir("/proc") if each.isdecimal() and int(each) != os.getpid())


def names_of(pid: int) -> set[str]:
    """The kernel cuts the first after 15 bytes, and shows the second only to who may trace the process."""
    found = {name_of(pid)}
    with suppress(OSError):
        found.add(os.path.basename(undeleted(os.readlink(f"/proc/{pid}/exe"))))
    interpreter = interpreter_called(found)
    if interpreter is not None:
        # of these alone: the kernel may let wait who reads the words of a process
        with suppress(OSError):
            found.add(os.path.basename(interpreter.file_in(_words(pid))))
    return found - {""}


def interpreter_called(names: Iterable[str]) -> Optional[Interpreter]:
    return next((each for each in INTERPRETERS if any(re.fullmatch(each.called, name) for name in names)), None)


def _words(pid: int) -> Sequence[str]:
    return os.fsdecode(read_bytes(f"/proc/{pid}/cmdline")).rstrip("\0").split("\0")


def _running(pid: int) -> Optional[NamedProcess]:
    """None where it has no memory: a kernel thread, a zombie, or one that has ended."""
    try:
        resident = status_row(pid, "VmRSS")
        words = _words(pid)
    except OSError:
        return None
    return NamedProcess(pid, int(resident.split()[0]) * 1024, " ".join(words)) if resident else None


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
