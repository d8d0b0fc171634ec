"""Explains why the kernel does not let us look at a process."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

from ...base.errors import TargetError
from . import procfiles

ALL_IDS = [b"0", b"0", b"4294967295"]
CAP_SYS_PTRACE = 19
SECCOMP_FILTER = 2


class Barrier(NamedTuple):
    """A restriction that even root meets when it looks at processes."""

    why: str
    hint: str


def barrier() -> Optional[Barrier]:
    """Returns the restriction, if known; None if root's rights, which we lack, may suffice."""
    if _scope() == 3:
        return Barrier("kernel.yama.ptrace_scope is 3", "only a reboot lifts it; a core can be read")
    if os.geteuid() != 0:
        return None
    if not int(procfiles.status_row(os.getpid(), "CapEff"), 16) >> CAP_SYS_PTRACE & 1:
        return Barrier("root has no CAP_SYS_PTRACE here", "in a container: --cap-add SYS_PTRACE")
    return Barrier(
        "root is refused, too", "perhaps by a security module such as SELinux, or by what isolates this container"
    )


def holding_hint() -> str:
    """Returns what helps if a process may be read but ptrace is refused: a filter on system calls applies behind sudo,
    too."""
    others = "--stop signal or --no-stop"
    if procfiles.status_number(os.getpid(), "Seccomp") == SECCOMP_FILTER:
        return f"a seccomp filter may forbid ptrace here: use {others}"
    return f"use {others}" if os.geteuid() == 0 else f"use sudo, {others}"


def _scope() -> int:
    try:
        return int(procfiles.read_bytes("/proc/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        return 0


def refusal(pid: int, uid: int) -> TargetError:
    """Returns why the kernel refused, and the command that lifts it (ptrace_may_access, then Yama)."""
    message = f"not permitted to read process {pid}"
    namespace = _namespace_apart(pid)
    if namespace is not None:
        return TargetError(
            f"{message} from inside the user namespace {namespace}, which has no rights outside of it",
            f"run arenascope where process {pid} was started",
        )
    barred = barrier()
    if barred is not None:
        return TargetError(f"{message}: {barred.why}", barred.hint)
    if uid != os.geteuid():
        who = "root's" if uid == 0 else f"user {uid}'s"
        return TargetError(f"{message}, which is {who}", "use sudo; in a container also --cap-add SYS_PTRACE")
    scope = _scope()
    if scope == 2:
        return TargetError(f"{message}: kernel.yama.ptrace_scope is 2", "use sudo")
    if scope == 1:
        return TargetError(
            f"{message}: kernel.yama.ptrace_scope is 1", "use sudo, or: sudo sysctl kernel.yama.ptrace_scope=0"
        )
    return TargetError(
        f"{message}: it has more privileges than you, or is not dumpable",
        "use sudo; in a container --cap-add SYS_PTRACE",
    )


def _namespace_apart(pid: int) -> Optional[str]:
    """Returns our user namespace, if it is not the machine's and the process is not known to be in it too."""
    try:
        if procfiles.read_bytes("/proc/self/uid_map").split() == ALL_IDS:
            return None
        ours = os.readlink("/proc/self/ns/user")
    except OSError:
        return None
    try:
        return None if os.readlink(f"/proc/{pid}/ns/user") == ours else ours
    except OSError:
        return ours  # to find out takes the very right that was refused
