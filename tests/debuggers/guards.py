"""Stacks with guard pages in mappings of their own, as before glibc 2.42 and Linux 6.13: GDB's gcore can dump those.

Since then glibc marks them inside the stack's own mapping (MADV_GUARD_INSTALL). GDB 13 cannot read them, and gives
the whole mapping up, neighbouring stacks included; neither `set dump-excluded-mappings on` nor `set use-coredump-filter
off` helps. Where madvise refuses, glibc goes back to mprotect, so a subject that is to be dumped has it refused.
"""

from __future__ import annotations

import ctypes
import struct

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
MADVISE = {0xC000003E: 28, 0x40000003: 219, 0xC00000B7: 233}
"""The number of the system call on x86-64, i386 and aarch64, by AUDIT_ARCH_…"""
MADV_GUARD_INSTALL = 102
ALLOW, EINVAL = 0x7FFF0000, 0x00050000 | 22
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, ARCH, ADVICE = 0, 4, 32
"""Where struct seccomp_data has them."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


def refuse_guard_regions() -> None:
    """For this process and what it executes; on a kernel without seccomp all stays as it is."""
    steps = [(LOAD, 0, 0, ARCH)]
    for arch, number in MADVISE.items():
        steps += [
            (EQUAL, 0, 6, arch),
            (LOAD, 0, 0, NUMBER),
            (EQUAL, 0, 2, number),
            (LOAD, 0, 0, ADVICE),
            (EQUAL, 1, 0, MADV_GUARD_INSTALL),
            (RETURN, 0, 0, ALLOW),
            (RETURN, 0, 0, EINVAL),
        ]
    steps.append((RETURN, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = _Program(len(steps), ctypes.cast(code, ctypes.c_void_p))
    libc = ctypes.CDLL(None)
    if not libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)
