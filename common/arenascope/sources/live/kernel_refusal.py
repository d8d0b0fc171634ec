"""Why the kernel does not let us look at a process, in words."""

from __future__ import annotations

import os
from typing import Optional

from ...base.errors import TargetError
from . import procfiles

ALL_IDS = [b"0", b"0", b"4294967295"]


def refusal(pid: int, uid: int) -> TargetError:
    """Why the kernel refused, and the command that lifts it (ptrace_may_access, then Yama)."""
    message = f"not permitted to read process {pid}"
    namespace = _namespace_apart(pid)
    if namespace is not None:
        return TargetError(
            f"{message} from inside the user namespace {namespace}, which has no rights outside of it",
            f"run arenascope where process {pid} was started",
        )
    if uid != os.geteuid():
        who = "root's" if uid == 0 else f"user {uid}'s"
        return TargetError(f"{message}, which is {who}", "use sudo; in a container also --cap-add SYS_PTRACE")
    try:
        scope = int(procfiles.read_bytes("/proc/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        scope = 0
    if scope == 3:
        return TargetError(f"{message}: kernel.yama.ptrace_scope is 3", "only a reboot lifts it; a core can be read")
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
    """Our user namespace, where it is not the machine's and the process is not known to be in it too."""
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
