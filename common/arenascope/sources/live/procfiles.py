"""The text files of /proc/PID: maps, smaps, smaps_rollup, status. Sizes in bytes."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any, Callable, Iterator, Optional, Sequence

from ...base.errors import TargetError
from ...base.mapping_names import HUGE_PAGES
from ...base.records import NamedTuple
from ..elf.kernel import undeleted
from ..target import MappingUse, MemoryUse, Region, Span

READ, WRITE, EXECUTE, SHARED = b"rwxs"
"""Permissions of a mapping."""
PF_KTHREAD = 0x00200000  # linux/sched.h


class MapsLine(NamedTuple):
    """A mapping with what identifies its file."""

    region: Region
    device: tuple[int, int]
    inode: int
    deleted: bool


class SmapsEntry(NamedTuple):
    """A mapping with its counters ("Rss", "Anonymous", "Swap", "AnonHugePages" …) and VmFlags ("lo", "ht" …)."""

    region: Region
    sizes: dict[str, int]
    flags: frozenset[str]


def read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def parse_region(line: bytes) -> Region:
    """A line of maps, or the first of a mapping's in smaps: of some processes there are 65,530."""
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
    """The mapping of a file at an address, as it is now; all others are passed over unread."""
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


def smaps(pid: int) -> Iterator[SmapsEntry]:
    """Every mapping; the kernel walks its page tables for this."""
    head: Optional[Region] = None
    sizes: dict[str, int] = {}
    flags: frozenset[str] = frozenset()
    for line in read_smaps(pid).splitlines():
        key, colon, value = line.partition(b":")
        # a counter's name has no blank; a mapping's line has "start-end perms" before the device's colon
        if b" " in key:
            if head is not None:
                yield SmapsEntry(head, sizes, flags)
            head, sizes, flags = parse_region(line), {}, frozenset()
        elif key == b"VmFlags":
            flags = frozenset(value.decode().split())
        elif colon:
            sizes.update(_size(key, value))
    if head is not None:
        yield SmapsEntry(head, sizes, flags)


def _size(key: bytes, value: bytes) -> dict[str, int]:
    words = value.split()
    return {key.decode(): int(words[0]) * 1024} if len(words) == 2 and words[1] == b"kB" else {}


def rollup(pid: int) -> dict[str, int]:
    """smaps_rollup: the sums over all mappings."""
    sizes: dict[str, int] = {}
    for line in read_bytes(f"/proc/{pid}/smaps_rollup").splitlines()[1:]:
        key, _, value = line.partition(b":")
        sizes.update(_size(key, value))
    return sizes


def seccomp_modes(pid: int) -> dict[int, int]:
    """By tid: 0 without seccomp, 1 in its strict mode, 2 under a filter; a kernel without it does not say."""
    modes = {}
    for tid in sorted(int(name) for name in os.listdir(f"/proc/{pid}/task")):
        rows = read_bytes(f"/proc/{pid}/task/{tid}/status").splitlines()
        modes[tid] = next((int(row.split()[1]) for row in rows if row.startswith(b"Seccomp:")), 0)
    return modes


def online_processors() -> int:
    """Of this machine, as get_nprocs() counts them."""
    return os.sysconf("SC_NPROCESSORS_ONLN")


def is_dead(pid: int) -> bool:
    """Whether no thread of the process is left that is more than a zombie."""
    try:
        tids = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    return all(is_zombie(pid, int(tid)) or not _stat(f"/proc/{pid}/task/{tid}") for tid in tids)


def is_zombie(pid: int, tid: int) -> bool:
    """Whether the kernel itself says that this thread has ended; not so where there is none of that number."""
    return _stat(f"/proc/{pid}/task/{tid}")[:1] in ([b"Z"], [b"X"])


def exit_code(pid: int) -> Optional[int]:
    """A zombie's, as wait() gives it; for who may trace it."""
    fields = _stat(f"/proc/{pid}")
    return int(fields[-1]) if fields[:1] == [b"Z"] else None


def _stat(folder: str) -> list[bytes]:
    """The fields of stat after the name, which may hold anything; none where it is gone."""
    try:
        return read_bytes(f"{folder}/stat").rpartition(b")")[2].split()
    except OSError:
        return []


def locked_ranges(pid: int) -> list[Span]:
    """Mappings under mlock, which MADV_DONTNEED refuses with EINVAL."""
    return _flagged(pid, "lo")


def hugetlb_ranges(pid: int) -> list[Span]:
    """Mappings of hugetlbfs pages: MADV_DONTNEED wants huge page alignment there, and before 5.18 refuses."""
    return _flagged(pid, "ht")


def unreleasable_ranges(pid: int) -> list[Span]:
    """Both of these. smaps walks all page tables, so it is asked only where status says that something is locked."""
    status = read_bytes(f"/proc/{pid}/status")
    rows = dict(line.split(b":", 1) for line in status.splitlines() if b":" in line)
    if all(int(rows.get(key, b"0 kB").split()[0]) == 0 for key in (b"VmLck", b"HugetlbPages")):
        return []
    return sorted([*locked_ranges(pid), *hugetlb_ranges(pid)])


def memory_of(pid: int) -> Optional[MemoryUse]:
    """Exact: status' own VmRSS is a sum of per-processor counters that lags behind. None
    where no memory is left."""
    try:
        sums = [rollup(pid)]
    except FileNotFoundError:  # before 4.14
        sums = [entry.sizes for entry in smaps(pid)]
    rss, anonymous = (sum(each.get(key, 0) for each in sums) for key in ("Rss", "Anonymous"))
    return MemoryUse(rss, anonymous) if rss else None


class Uses(Sequence[MappingUse]):
    """smaps of one moment, taken apart when somebody looks into it: its process may have been let go by then.

    Its Rss are the very numbers that RSS is the sum of; huge pages of hugetlbfs, which the kernel leaves out of these,
    are in memory all the same.
    """

    def __init__(self, text: Callable[[], bytes]) -> None:
        self._text = text

    @cached_property
    def _rows(self) -> list[MappingUse]:
        # each mapping's own line comes before its Size, which nothing else begins a line with
        before, *parts = self._text().split(b"\nSize:")
        rows = []
        for part in parts:
            region = parse_region(before[before.rfind(b"\n") + 1 :])
            rss = _counter(part, RSS) + (_counter(part, APART) if region.path == HUGE_PAGES else 0)
            rows.append(
                MappingUse(region, rss, _counter(part, SWAP), _counter(part, HUGE), anonymous=_counter(part, OWN))
            )
            before = part
        return rows

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[MappingUse]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


RSS, SWAP, HUGE, APART = b"\nRss:", b"\nSwap:", b"\nAnonHugePages:", b"\nPrivate_Hugetlb:"
OWN = b"\nAnonymous:"


def _counter(text: bytes, key: bytes) -> int:
    """0 where this kernel has no such counter."""
    start = text.find(key)
    return int(text[start + len(key) : text.index(b"kB", start)]) * 1024 if start >= 0 else 0


def read_smaps(pid: int) -> bytes:
    return read_bytes(f"/proc/{pid}/smaps")


def _flagged(pid: int, flag: str) -> list[Span]:
    return [Span(entry.region.start, entry.region.end) for entry in smaps(pid) if flag in entry.flags]


class Status(NamedTuple):
    """/proc/PID/status."""

    name: str
    state: str
    """One letter: R, S, D, T, t, Z, X …"""
    tid: int
    tgid: int
    uid: int
    namespace_pids: tuple[int, ...]
    """The pid in each pid namespace, outermost first (NSpid); what a core or the process itself calls it comes last."""
    rss: Optional[int]
    swap: Optional[int]
    """None where the process has no memory of its own: a kernel thread, a zombie."""
    threads: int


def read_status(pid: int) -> Status:
    rows = {}
    for line in read_bytes(f"/proc/{pid}/status").splitlines():
        key, _, value = line.partition(b":")
        rows[key.decode()] = os.fsdecode(value.strip())

    def size(key: str) -> Optional[int]:
        return int(rows[key].split()[0]) * 1024 if key in rows else None

    return Status(
        rows["Name"],
        rows["State"][:1],
        tid=int(rows["Pid"]),
        tgid=int(rows["Tgid"]),
        uid=int(rows["Uid"].split()[1]),
        namespace_pids=tuple(int(word) for word in rows.get("NSpid", rows["Pid"]).split()),
        rss=size("VmRSS"),
        swap=size("VmSwap"),
        threads=int(rows["Threads"]),
    )


def status_row(pid: int, name: str) -> str:
    """A row of /proc/PID/status; "" where this kernel has none of that name."""
    rows = read_bytes(f"/proc/{pid}/status").decode("latin-1").splitlines()
    return next((row.partition(":")[2].strip() for row in rows if row.startswith(name + ":")), "")


def inner_number(folder: str, row: str) -> int:
    """What a thread calls itself or its process, from NSpid or NStgid: the innermost pid namespace comes last."""
    rows = read_bytes(f"{folder}/status").splitlines()
    return int(next(each for each in rows if each.startswith(row.encode() + b":")).split()[-1])


def thread_ids(pid: int) -> list[int]:
    return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))


def thread_count(pid: int) -> int:
    """The kernel's own, however many there are; 0 where the process is gone."""
    try:
        return int(status_row(pid, "Threads") or 0)
    except OSError:
        return 0


def born(pid: int) -> int:
    """When it was started, in ticks since the machine was: with its number, what no other process has."""
    fields = _stat(f"/proc/{pid}")
    if not fields:
        raise ProcessLookupError
    return int(fields[19])


def is_kernel_thread(pid: int) -> bool:
    """A process that is about to end has no memory either. False where it has ended."""
    fields = _stat(f"/proc/{pid}")
    return bool(fields) and bool(int(fields[6]) & PF_KTHREAD)


def check_born(pid: int, when: int) -> None:
    """TargetError where that process has ended, though its number may be another's by now."""
    try:
        if born(pid) == when:
            return
    except OSError:
        pass
    raise TargetError(f"process {pid} has ended")


def thread_state(pid: int, tid: int) -> str:
    """One letter, as in Status.state; "X" where the thread is gone."""
    fields = _stat(f"/proc/{pid}/task/{tid}")
    return fields[0].decode() if fields else "X"


def waits_at(pid: int, tid: int) -> str:
    """The function in which the kernel has this thread wait; "" where it does not say."""
    try:
        place = read_bytes(f"/proc/{pid}/task/{tid}/wchan").decode()
    except OSError:
        return ""
    return "" if place == "0" else place


def tracer_of(tid: int) -> int:
    """The pid of the debugger that traces this thread; 0 where none does."""
    try:
        status = read_bytes(f"/proc/{tid}/status")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith(b"TracerPid:")), 0)
