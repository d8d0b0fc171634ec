"""What the kernel says of a process in the same form everywhere: in /proc, through ptrace(2), and in a core's notes."""

from __future__ import annotations

import struct
from typing import Mapping, NamedTuple, Optional

# <linux/elf.h>: "CORE" and "LINUX" own the notes of cores, and the sets of ptrace(2) have the same numbers
NT_PRSTATUS, NT_PRPSINFO, NT_AUXV, NT_SIGINFO, NT_FILE = 1, 3, 6, 0x53494749, 0x46494C45
NT_386_TLS, NT_ARM_TLS = 0x200, 0x401
NT_FPREGSET, NT_X86_XSTATE, NT_S390_HIGH_GPRS, NT_ARM_VFP, NT_ARM_SVE = 2, 0x202, 0x300, 0x400, 0x405
NT_ARM_SSVE, NT_ARM_ZA, NT_ARM_GCS = 0x40B, 0x40C, 0x410
REGISTER_NOTES = (
    ("CORE", NT_FPREGSET),
    ("LINUX", NT_X86_XSTATE),
    ("LINUX", NT_386_TLS),
    ("LINUX", NT_ARM_VFP),
    ("LINUX", NT_ARM_TLS),
    ("LINUX", NT_ARM_SVE),
    ("LINUX", NT_S390_HIGH_GPRS),
)
"""Sets of registers beside the general ones; each machine has some of them."""
# <linux/auxvec.h>
AT_NULL, AT_PHDR, AT_PHNUM, AT_PAGESZ, AT_BASE, AT_ENTRY = 0, 3, 5, 6, 7, 9
AT_PLATFORM, AT_SECURE, AT_RANDOM, AT_EXECFN, AT_SYSINFO_EHDR = 15, 23, 25, 31, 33
DELETED = " (deleted)"
OWN = "ARENASCOPE"
"""Owns notes of our own, which `save` writes."""
NT_MOMENT, NT_RESIDENT, NT_SWAPPED, NT_VECTORS = 1, 2, 3, 16
"""Of these the last has vector registers one after another, as a debugger has them by name (WIDE in registers.py), the
others what core/saved_note.py tells of."""


class FileMapping(NamedTuple):
    """One row of NT_FILE."""

    start: int
    end: int
    offset: int
    path: str


def parse_auxv(data: bytes, pointer_size: int, mark: str) -> dict[int, int]:
    """The auxiliary vector up to AT_NULL."""
    pair = struct.Struct(mark + ("2I" if pointer_size == 4 else "2Q"))
    auxv: dict[int, int] = {}
    for kind, value in pair.iter_unpack(data[: len(data) // pair.size * pair.size]):
        if kind == AT_NULL:
            break
        auxv[kind] = value
    return auxv


def is_secure(auxv: Mapping[int, int]) -> Optional[bool]:
    """As Target.is_secure: its file is set-user-ID or set-group-ID, or has capabilities. None where it does not say."""
    secure = auxv.get(AT_SECURE)
    return None if secure is None else bool(secure)


def undeleted(path: str) -> str:
    """The path without the kernel's mark for a file that has been removed or replaced since."""
    return path[: -len(DELETED)] if path.endswith(DELETED) else path
