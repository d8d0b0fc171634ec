"""The text files of /proc/PID (maps, smaps, smaps_rollup, status), and why the kernel refuses them. Sizes in bytes."""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import Callable, Iterator, NamedTuple, Optional, Sequence, Union, overload

from ...base.errors import TargetError
from ...base.heap_model import HUGE_PAGES
from ..elf.elf_file import undeleted
from ..target import MappingUse, MemoryUse, Region, Span

READ, WRITE, EXECUTE, SHARED = b"rwxs"
"""Permissions of a mapping."""
PF_KTHREAD = 0x00200000  # linux/sched.h


class MapsLine(NamedTuple):
    """A mapping, with what identifies its file."""

    region: Region
    device: tuple[int, int]
    inode: int
    deleted: bool


def read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def parse_region(line: bytes) -> Region:
    """Parses a line of maps, or the first line of a mapping in smaps: some processes have 65,530."""
    fields = line.split(None, 5)
    low, _, high = fields[0].partition(b"-")
    permissions = fields[1]
    path = undeleted(_name(fields)) if len(fields) > 5 else ""
    return Region(
        int(low, 16),
        int(high, 16),
        permissions[0] == READ,
        permissions[1] == WRITE,
        executable=permissions[2] == EXECUTE,
        path=path,
        offset=int(fields[2], 16) if path.startswith("/") else 0,
        shared=permissions[3] == SHARED,
    )


def _name(fields: Sequence[bytes]) -> str:
    # the kernel escapes only the newline
    return os.fsdecode(fields[5].rstrip(b"\n").replace(b"\\012", b"\n"))


def parse_regions(maps: bytes) -> list[Region]:
    return [parse_region(line) for line in maps.splitlines()]


def read_maps(pid: int) -> bytes:
    return read_bytes(f"/proc/{pid}/maps")


def read_regions(pid: int) -> list[Region]:
    return parse_regions(read_maps(pid))


def find_file(pid: int, address: int) -> Optional[MapsLine]:
    """Finds the current mapping of a file at an address; others are skipped without parsing."""
    for line in read_maps(pid).splitlines():
        high = line.partition(b" ")[0].partition(b"-")[2]
        if int(high, 16) <= address:
            continue
        region = parse_region(line)
        if not region.contains(address) or not region.is_file:
            return None
        fields = line.split(None, 5)
        major, minor = fields[3].split(b":")
        return MapsLine(region, (int(major, 16), int(minor, 16)), int(fields[4]), region.path != _name(fields))
    return None


def smaps(text: bytes) -> Iterator[tuple[Region, bytes]]:
    """Yields every mapping with its rows in smaps."""
    # each mapping's own line comes before its Size, which nothing else begins a line with
    before, *parts = text.split(b"\nSize:")
    for part in parts:
        yield parse_region(before[before.rfind(b"\n") + 1 :]), part
        before = part


def seccomp_modes(pid: int) -> dict[int, int]:
    """Returns by tid: 0 without seccomp, 1 in its strict mode, 2 under a filter; a kernel without it does not say."""
    return {tid: int(_status_rows(f"/proc/{pid}/task/{tid}").get("Seccomp", 0)) for tid in thread_ids(pid)}


def is_dead(pid: int) -> bool:
    """Tells whether all threads of the process are gone or zombies."""
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    return all(is_zombie(pid, int(tid)) or not _stat(f"/proc/{pid}/task/{tid}") for tid in tids)


def is_zombie(pid: int, tid: int) -> bool:
    """Tells whether the kernel says that this thread has ended; False if there is none of that number."""
    return _stat(f"/proc/{pid}/task/{tid}")[:1] in ([b"Z"], [b"X"])


def exit_code(pid: int) -> Optional[int]:
    """Returns a zombie's exit code, as from wait(); for who may trace it."""
    fields = _stat(f"/proc/{pid}")
    return int(fields[-1]) if fields[:1] == [b"Z"] else None


def _stat(folder: str) -> list[bytes]:
    """Returns the fields of stat after the name; empty if it is gone."""
    return named_stat(folder)[1]


def named_stat(folder: str) -> tuple[bytes, list[bytes]]:
    """Returns the name, which may hold anything, and the fields after it; none of them if it is gone."""
    try:
        before, _, after = read_bytes(f"{folder}/stat").rpartition(b")")
    except OSError:
        return b"", []
    return before.partition(b"(")[2], after.split()


def unreleasable_ranges(pid: int) -> list[Span]:
    """Returns mappings under mlock, which MADV_DONTNEED refuses with EINVAL ("lo"), and of hugetlbfs pages ("ht"),
    where it wants huge page alignment and before 5.18 refuses. smaps walks all page tables, so it is read only if
    status says that something is locked."""
    rows = _status_rows(f"/proc/{pid}")
    if all(int(rows.get(key, "0 kB").split()[0]) == 0 for key in ("VmLck", "HugetlbPages")):
        return []
    mappings = smaps(read_smaps(pid))
    return [Span(region.start, region.end) for region, counters in mappings if flags(counters) & {b"lo", b"ht"}]


def flags(rows: bytes) -> set[bytes]:
    """Returns VmFlags of a mapping in smaps."""
    return set(rows.partition(b"\nVmFlags:")[2].partition(b"\n")[0].split())


def memory_of(pid: int) -> Optional[MemoryUse]:
    """Returns exact sums: status' own VmRSS is a sum of per-processor counters that lags behind. None if no memory is
    left."""
    try:
        text = read_bytes(f"/proc/{pid}/smaps_rollup")
    except FileNotFoundError:  # before 4.14
        text = read_smaps(pid)
    return _memory_in(text)


def _memory_in(text: bytes) -> Optional[MemoryUse]:
    rss, anonymous = (
        1024 * sum(map(int, re.findall(rb"\n%b:\s*(\d+) kB" % key, text))) for key in (b"Rss", b"Anonymous")
    )
    return MemoryUse(rss, anonymous) if rss else None


class Uses(Sequence[MappingUse]):
    """smaps of one moment, parsed when it is first used: the process may have been released by then.

    Its Rss are the very numbers that RSS is the sum of; huge pages of hugetlbfs, which the kernel leaves out of these,
    are in memory all the same.
    """

    def __init__(self, text: Callable[[], bytes]) -> None:
        self._text = text

    @property
    def memory(self) -> Optional[MemoryUse]:
        """The same as memory_of, for which the kernel would visit all pages once more."""
        return _memory_in(self._text())

    @cached_property
    def _rows(self) -> list[MappingUse]:
        rows = []
        for region, part in smaps(self._text()):
            rss = counter(part, RSS) + (counter(part, APART) if region.path == HUGE_PAGES else 0)
            rows.append(MappingUse(region, rss, counter(part, SWAP), counter(part, HUGE), anonymous=counter(part, OWN)))
        return rows

    @overload
    def __getitem__(self, index: int) -> MappingUse: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[MappingUse]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[MappingUse, Sequence[MappingUse]]:
        return self._rows[index]

    def __iter__(self) -> Iterator[MappingUse]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


RSS, SWAP, HUGE, APART = b"\nRss:", b"\nSwap:", b"\nAnonHugePages:", b"\nPrivate_Hugetlb:"
OWN = b"\nAnonymous:"


def counter(text: bytes, key: bytes) -> int:
    """Returns a counter; 0 if this kernel has none of that name."""
    start = text.find(key)
    return int(text[start + len(key) : text.index(b"kB", start)]) * 1024 if start >= 0 else 0


def read_smaps(pid: int) -> bytes:
    return read_bytes(f"/proc/{pid}/smaps")


class Status(NamedTuple):
    """/proc/PID/status."""

    name: str
    state: str
    """One letter: R, S, D, T, t, Z, X …"""
    tid: int
    tgid: int
    uid: int
    rss: Optional[int]
    swap: Optional[int]
    """None if the process has no memory of its own: a kernel thread, a zombie."""
    threads: int


def read_status(pid: int) -> Status:
    rows = _status_rows(f"/proc/{pid}")

    def size(key: str) -> Optional[int]:
        return int(rows[key].split()[0]) * 1024 if key in rows else None

    return Status(
        rows["Name"],
        rows["State"][:1],
        tid=int(rows["Pid"]),
        tgid=int(rows["Tgid"]),
        uid=int(rows["Uid"].split()[1]),
        rss=size("VmRSS"),
        swap=size("VmSwap"),
        threads=int(rows["Threads"]),
    )


def status_row(pid: int, name: str) -> str:
    """Returns a row of /proc/PID/status; "" if this kernel has none of that name."""
    return _status_rows(f"/proc/{pid}").get(name, "")


def _status_rows(folder: str) -> dict[str, str]:
    """Yields the status rows of a process or a thread."""
    rows = (line.partition(b":") for line in read_bytes(f"{folder}/status").splitlines())
    return {key.decode(): os.fsdecode(value.strip()) for key, _, value in rows}


def status_number(pid: int, name: str) -> int:
    """Returns a row that is a number; 0 if there is none, or no such process."""
    try:
        return int(status_row(pid, name) or 0)
    except OSError:
        return 0


def inner_number(folder: str, row: str) -> int:
    """Returns a thread's own number, or its process's, from NSpid or NStgid: the innermost pid namespace comes last."""
    return int(_status_rows(folder)[row].split()[-1])


def thread_ids(pid: int) -> list[int]:
    return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))


def born(pid: int) -> int:
    """Returns the start time in ticks since boot: with the number, it identifies a process."""
    fields = _stat(f"/proc/{pid}")
    if not fields:
        raise ProcessLookupError
    return int(fields[19])


def name_of(pid: int) -> str:
    """Returns the kernel's name of a process; "" if it has ended."""
    try:
        return os.fsdecode(read_bytes(f"/proc/{pid}/comm").rstrip(b"\n"))
    except OSError:
        return ""


def is_kernel_thread(pid: int) -> bool:
    """Tells whether it is a kernel thread. A process that is about to end has no memory either. False if it has
    ended."""
    fields = _stat(f"/proc/{pid}")
    return bool(fields) and bool(int(fields[6]) & PF_KTHREAD)


def check_born(pid: int, when: int) -> None:
    """Raises TargetError if that process has ended, though its number may be another's by now."""
    try:
        if born(pid) == when:
            return
    except OSError:
        pass
    raise TargetError(f"process {pid} has ended")


def thread_state(pid: int, tid: int) -> str:
    """Returns one letter, as in Status.state; "X" if the thread is gone."""
    fields = _stat(f"/proc/{pid}/task/{tid}")
    return fields[0].decode() if fields else "X"


def waits_at(pid: int, tid: int) -> str:
    """Returns the kernel function in which this thread waits; "" if unknown."""
    try:
        place = read_bytes(f"/proc/{pid}/task/{tid}/wchan").decode()
    except OSError:
        return ""
    return "" if place == "0" else place


# refusals

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
    if not int(status_row(os.getpid(), "CapEff"), 16) >> CAP_SYS_PTRACE & 1:
        return Barrier("root has no CAP_SYS_PTRACE here", "in a container: --cap-add SYS_PTRACE")
    return Barrier(
        "root is refused, too", "perhaps by a security module such as SELinux, or by what isolates this container"
    )


def holding_hint() -> str:
    """Returns what helps if a process may be read but ptrace is refused: a filter on system calls applies behind sudo,
    too."""
    others = "--stop signal or --no-stop"
    if status_number(os.getpid(), "Seccomp") == SECCOMP_FILTER:
        return f"a seccomp filter may forbid ptrace here: use {others}"
    return f"use {others}" if os.geteuid() == 0 else f"use sudo, {others}"


def _scope() -> int:
    try:
        return int(read_bytes("/proc/sys/kernel/yama/ptrace_scope"))
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
        if read_bytes("/proc/self/uid_map").split() == ALL_IDS:
            return None
        ours = os.readlink("/proc/self/ns/user")
    except OSError:
        return None
    try:
        return None if os.readlink(f"/proc/{pid}/ns/user") == ours else ours
    except OSError:
        return ours  # to find out takes the very right that was refused
