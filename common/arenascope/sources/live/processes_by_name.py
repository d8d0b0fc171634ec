"""Finds processes by name, as /proc shows them at one moment."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from ..elf.elf_file import undeleted
from .proc_tables import PF_KTHREAD, name_of, named_stat, read_bytes, status_row


class Interpreter(NamedTuple):
    called: str
    """The name of its executable; this and the others are patterns."""
    code: str
    """The option followed by code, or a module, in place of a file."""
    valued: str
    """Options with a value in the next word."""
    behind: str = ""
    """The option without which there is no file."""

    def file_in(self, words: Sequence[str]) -> str:
        """Returns the file that it was started with; "" if there is none."""
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
    """In bytes, as in status: near enough to tell processes apart."""
    command: str
    """The command line, with a blank between words."""


def processes_called(name: str) -> list[NamedProcess]:
    """Returns processes where /proc/PID/comm, the base name of the executable or of the script that it runs is `name`,
    the largest first; never this one."""
    found = [_running(pid) for pid in other_pids() if name in names_of(pid)]
    return sorted((each for each in found if each is not None), key=lambda each: (-each.resident, each.pid))


def other_pids() -> Iterator[int]:
    return (int(each) for each in os.listdir("/proc") if each.isdecimal() and int(each) != os.getpid())


def names_of(pid: int) -> set[str]:
    """Returns the names. The kernel cuts the first after 15 bytes, and shows the second only to who may trace the
    process."""
    found = {name_of(pid)}
    with suppress(OSError):
        found.add(os.path.basename(undeleted(os.readlink(f"/proc/{pid}/exe"))))
    interpreter = interpreter_called(found)
    if interpreter is not None:
        # only these: reading a process's command line may block in the kernel
        with suppress(OSError):
            found.add(os.path.basename(interpreter.file_in(_words(pid))))
    return found - {""}


def interpreter_called(names: Iterable[str]) -> Optional[Interpreter]:
    return next((each for each in INTERPRETERS if any(re.fullmatch(each.called, name) for name in names)), None)


def _words(pid: int) -> Sequence[str]:
    return os.fsdecode(read_bytes(f"/proc/{pid}/cmdline")).rstrip("\0").split("\0")


def _running(pid: int) -> Optional[NamedProcess]:
    """Returns the process; None if it has no memory: a kernel thread, a zombie, or one that has ended."""
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
    """As in ps and top: the kernel's own counter, which may lag behind by some pages for each processor."""
    started: int
    """The start time: with the pid, it identifies a process."""
    program: bytes
    """The addresses of its code and stack: others after exec, unless the same program gets the same places."""


def list_processes(page_size: int) -> Iterator[ListedProcess]:
    """Lists processes by pid, also of other users, without this one, kernel threads and ended ones."""
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
