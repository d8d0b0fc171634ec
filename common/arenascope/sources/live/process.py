"""Reads a live process through /proc/PID, without a debugger and without stopping it."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Callable, Iterator, Mapping, Optional, Sequence, TypeVar, Union

from ...base.errors import MemoryReadError, TargetError
from ...sources import target
from ..elf import environment_variables
from ..elf.elf_file import AT_PAGESZ, MAGIC, parse_auxv
from ..elf.sysroot import open_regular
from ..image_files import Source
from ..target import MemoryPiece, Timer, Watched
from . import proc_tables
from .pagemap import PagemapResidency
from .proc_tables import barrier, read_bytes, refusal

if TYPE_CHECKING:
    from ..core.core_in_memory import MemoryWriter
    from .shared_memory import SharedFiles

T = TypeVar("T")
# one pread moves at most MAX_RW_COUNT bytes, and takes no offset above the signed range
LARGEST_READ = 0x7FFFF000
ADDRESS_LIMIT = 1 << 63


class ProcessImage(Source):
    """A process through /proc/PID. A thread's id leads to its process.

    `memory_tid` is the thread whose folder has the memory: `pid`, or another if the main thread has exited.
    """

    kind = "live"
    pid: int
    memory_tid: int
    _mem = -1
    _maps = b""
    _regions: Sequence[target.Region] = ()
    """The mappings in `_maps`, the text of /proc/PID/maps."""
    _shared: Optional[SharedFiles] = None
    on_disk = False
    """Whether there is too little memory for a copy."""
    room: Optional[MemoryWriter] = None
    """Memory reserved for a copy before the process is held."""
    is_spared = False
    """Whether it is not copied, for lack of room: only slow parts of an answer need a copy."""
    _over: Optional[TargetError] = None
    """The reason why nothing more may be read."""

    def __init__(self, pid: int) -> None:
        self._page_tables = ExitStack()
        self.status, self.memory_tid = _find_process(pid)
        self.pid = self.status.tgid
        self._folder = f"/proc/{self.memory_tid}"
        self.born = self.guarded(lambda: proc_tables.born(self.pid))
        # first of all: it stays the memory of this program, should the process become another
        self._mem = self.guarded(lambda: os.open(f"{self._folder}/mem", os.O_RDONLY | os.O_CLOEXEC))
        ident = self.guarded(self._read_ident)
        self.pointer_size = 4 if ident[4] == 1 else 8
        self.byte_order: target.ByteOrder = "little" if ident[5] == 1 else "big"
        self.mark = "<" if ident[5] == 1 else ">"
        self.machine = int.from_bytes(ident[18:20], self.byte_order)
        self.auxv_bytes = self.guarded(lambda: proc_tables.read_bytes(f"{self._folder}/auxv"))
        self.auxv = parse_auxv(self.auxv_bytes, self.pointer_size, self.mark)
        self.page_size = self.auxv.get(AT_PAGESZ) or os.sysconf("SC_PAGE_SIZE")

    def _read_ident(self) -> bytes:
        # exe opens even where the file was deleted or lies in another mount namespace
        with open(f"{self._folder}/exe", "rb") as file:
            ident = file.read(20)
        if ident[:4] != MAGIC or len(ident) < 20:
            raise TargetError(f"the program of process {self.pid} is not an ELF file")
        return ident

    def guarded(self, action: Callable[[], T]) -> T:
        """Returns the action's result, and explains the kernel's refusals."""
        try:
            return action()
        except PermissionError as error:
            raise refusal(self.pid, self.status.uid) from error
        except (FileNotFoundError, ProcessLookupError) as error:
            raise TargetError(f"process {self.pid} has ended") from error

    def gone(self) -> TargetError:
        """Explains that its memory is gone: the kernel has nothing to read once the address space is taken down."""
        if self._over is not None:
            return self._over
        try:
            status = proc_tables.read_status(self.pid)
            if proc_tables.born(self.pid) == self.born and status.rss is not None:
                return TargetError(
                    f"process {self.pid} has become another program meanwhile: {status.name}", "look again"
                )
        except (OSError, KeyError):
            pass
        return TargetError(f"process {self.pid} has ended")

    def give_up(self, why: TargetError) -> None:
        """Refuses all further reads; called from another thread. It adds no check to a read."""
        self._over = why
        if self._mem >= 0:
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), self._mem, inheritable=False)

    def close(self) -> None:
        memory, self._mem = self._mem, -1
        if memory >= 0:
            os.close(memory)
        self._page_tables.close()
        room, self.room = self.room, None
        if room is not None:
            room.close()

    def page_tables(self) -> PagemapResidency:
        """Opens its page tables, until this is closed."""
        return self.guarded(lambda: self._page_tables.enter_context(PagemapResidency(self.memory_tid, self.page_size)))

    def read(self, address: int, size: int) -> bytes:
        """Reads all of it, or raises MemoryReadError.

        This makes an untouched page present, as the shared zero page: RSS does not count it.
        """
        if not 0 <= address <= address + size <= ADDRESS_LIMIT:
            raise MemoryReadError(address, size)
        if self._shared is not None:
            data = self._shared.read(address, size)
            if data:
                return data
        try:
            data = os.pread(self._mem, min(size, LARGEST_READ), address) if size else b""
            if len(data) == size:
                return data
            return self._read_on(address, size, data)
        # OverflowError: an offset of 2**63 itself; EIO: nothing is mapped there, or it may not be read
        except (OSError, OverflowError) as error:
            raise MemoryReadError(address, size) from error

    def pieces(self, start: int, end: int) -> Optional[Sequence[MemoryPiece]]:
        if self._shared is not None and self._shared.has(start, end):
            return None
        return [MemoryPiece(start, end - start, file=self._mem, offset=start)]

    def fill(self, address: int, block: memoryview) -> int:
        """Reads into `block`, up to where nothing is mapped."""
        if self._shared is not None:
            done = self._shared.fill(address, block)
            if done:
                return done
        if not 0 <= address <= address + len(block) <= ADDRESS_LIMIT:
            raise MemoryReadError(address, len(block))
        try:
            size = os.preadv(self._mem, [block], address)
        except (OSError, OverflowError) as error:
            raise MemoryReadError(address, len(block)) from error
        if not size and len(block):
            raise self.gone()
        return size

    def _read_on(self, address: int, size: int, data: bytes) -> bytes:
        """Continues a short read: beyond MAX_RW_COUNT, or at the end of what is mapped."""
        parts, done = [data], len(data)
        while data and done < size:
            data = os.pread(self._mem, min(size - done, LARGEST_READ), address + done)
            parts.append(data)
            done += len(data)
        if done < size:
            # where nothing is mapped it is EIO that the kernel says
            raise self.gone()
        return b"".join(parts)

    @property
    def memory_file(self) -> int:
        """Its /proc/PID/mem, open."""
        return self._mem

    def regions(self) -> Sequence[target.Region]:
        """Returns the current mappings, parsed again only if one has changed."""
        maps = self.guarded(lambda: proc_tables.read_maps(self.memory_tid))
        if not maps:
            raise self.gone()
        if maps != self._maps:
            self._maps, self._regions = maps, proc_tables.parse_regions(maps)
        return self._regions

    def threads(self) -> Sequence[target.ThreadInfo]:
        """Returns threads by tid. /proc does not tell the thread pointer: only ptrace has it."""
        threads = []
        for tid, name in self.thread_names().items():
            stack, counter = self._stack_and_counter(tid)
            threads.append(target.ThreadInfo(tid, name, stack_pointer=stack, program_counter=counter))
        return threads

    def thread_names(self) -> Mapping[int, str]:
        """Returns names by tid, in order."""
        names = {}
        for tid in self.guarded(lambda: proc_tables.thread_ids(self.pid)):
            name = self.thread_name(tid)
            if name is not None:
                names[tid] = name
        return names

    def thread_name(self, tid: int) -> Optional[str]:
        """Returns the name; None if the thread has ended meanwhile."""
        try:
            return os.fsdecode(proc_tables.read_bytes(f"/proc/{self.pid}/task/{tid}/comm").rstrip(b"\n"))
        except OSError:
            return None

    def _stack_and_counter(self, tid: int) -> tuple[Optional[int], Optional[int]]:
        """Parses the last words of task/TID/syscall; a running thread says "running"."""
        try:
            words = proc_tables.read_bytes(f"/proc/{self.pid}/task/{tid}/syscall").split()
        except OSError:
            return None, None
        return (int(words[-2], 16), int(words[-1], 16)) if len(words) >= 3 else (None, None)

    def environment(self) -> Optional[Mapping[str, str]]:
        """Returns the environment that the process was started with; None if it has overwritten that, or it may not be
        read.

        /proc/PID/environ comes second: parse_tunables of ld.so (2.25 to 2.38) cuts GLIBC_TUNABLES into pieces there.
        """
        try:
            variables = environment_variables.from_stack(
                self.read, self.auxv, self.auxv_bytes, self.pointer_size, mark=self.mark
            )
            if variables is not None:
                return variables
            return environment_variables.parse_block(proc_tables.read_bytes(f"{self._folder}/environ"))
        except (OSError, TargetError):
            return None

    # the kernel's view: by the thread that has the memory, as the folder of one that has exited tells of none

    def residency(self) -> Optional[target.Residency]:
        return self.page_tables()

    def mapping_use(self) -> Optional[Sequence[target.MappingUse]]:
        text = self.smaps()
        return proc_tables.Uses(lambda: text)

    def smaps(self) -> bytes:
        """Returns the text of /proc/PID/smaps, for which the kernel visits all pages."""
        text = self.guarded(lambda: proc_tables.read_smaps(self.memory_tid))
        if not text:
            raise self.gone()
        return text

    def memory_use(self) -> Optional[target.MemoryUse]:
        use = self.guarded(lambda: proc_tables.memory_of(self.memory_tid))
        if use is None:
            raise self.gone()
        return use

    def locked(self) -> Optional[Sequence[target.Span]]:
        return self.guarded(lambda: proc_tables.unreleasable_ranges(self.memory_tid))

    def watched(self) -> Optional[Sequence[Watched]]:
        try:
            return list(_epoll_words(f"/proc/{self.pid}"))
        except OSError:  # /proc does not show them
            return []

    def timers(self) -> Sequence[Timer]:
        try:
            told = read_bytes(f"/proc/{self.pid}/timers")
        except OSError:  # it needs CONFIG_CHECKPOINT_RESTORE
            return []
        return [Timer(int(row[1]), int(row[2], 16)) for row in TIMER.finditer(told)]

    def own_pages(self, regions: Sequence[target.Region]) -> Sequence[target.Region]:
        if not regions:
            return ()
        with self.guarded(lambda: PagemapResidency(self.memory_tid, self.page_size)) as pages:
            try:
                own = ((each, part) for each in regions for part in pages.own(each.start, each.end))
                return [region._replace(start=part.start, end=part.end) for region, part in own]
            except OSError:  # it ended meanwhile
                return ()

    def shared_memory(self) -> Optional[target.SharedMemory]:
        """Finds shared memory, which is then read from its own files."""
        residency = self.residency()
        return self.shared_files(residency).told if residency is not None else None

    def shared_files(self, residency: target.Residency, most: Optional[int] = None) -> SharedFiles:
        """Opens what lies behind its shared mappings, which are read there from then on."""
        from .shared_memory import MOST, SharedFiles

        most = MOST if most is None else min(most, MOST)
        self._shared = SharedFiles(self._folder, self.regions(), residency, most)
        return self._shared

    def processors(self) -> Optional[int]:
        return os.sysconf("SC_NPROCESSORS_ONLN")  # as get_nprocs() counts this machine's

    def save(
        self, path: Union[str, int], registers: Sequence[target.RegisterSets], release: Callable[[], float]
    ) -> target.SavedCore:
        from .save_process import save_process

        return save_process(self, path, registers, release)

    def open_file(self, region: target.Region, likely: Sequence[str] = ()) -> Optional[str]:
        """Returns a path under which the very file that is mapped can be read, even if it was deleted or replaced;
        likely places are tried first."""
        if not region.is_file:
            return None
        # needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN
        mapped = f"{self._folder}/map_files/{region.start:x}-{region.end:x}"
        if _can_read(mapped):
            return mapped
        line = self.guarded(lambda: proc_tables.find_file(self.memory_tid, region.start))
        if line is None:
            return None
        now = f"{self._folder}/map_files/{line.region.start:x}-{line.region.end:x}"
        if now != mapped and _can_read(now):
            return now
        path = f"{self._folder}/root{line.region.path}"
        return path if _can_read(path) and _is_same_file(path, line) else None


def _can_read(path: str) -> bool:
    """Tells whether it is a regular file that we may read: a FIFO in its place would block."""
    try:
        os.close(open_regular(path))
        return True
    except OSError:
        return False


def _is_same_file(path: str, line: proc_tables.MapsLine) -> bool:
    """Compares inode and device; only the inode if maps shows another device than stat (btrfs, overlayfs)."""
    file = os.stat(path)
    if line.deleted or file.st_ino != line.inode:
        return False
    device = (os.major(file.st_dev), os.minor(file.st_dev))
    # major 0: file systems without a block device, whose numbers may differ
    return device == line.device or 0 in (device[0], line.device[0])


def _find_process(pid: int) -> tuple[proc_tables.Status, int]:
    """Returns the process's status, and the thread that has its memory."""
    if not os.path.exists("/proc/self/status"):
        raise TargetError("there is no /proc here: live processes can be read on Linux only")
    try:
        status = proc_tables.read_status(pid)
        if status.tgid != pid:
            status = proc_tables.read_status(status.tgid)
        if status.state in "ZX":
            # main may leave by pthread_exit while others go on: the memory is theirs then
            for name in os.listdir(f"/proc/{status.tgid}/task"):
                # when all are killed, others may be gone before main is
                with suppress(FileNotFoundError, ProcessLookupError):
                    other = proc_tables.read_status(int(name))
                    if other.rss is not None:
                        return other, other.tid
    except (FileNotFoundError, ProcessLookupError) as error:
        raise TargetError(f"there is no process {pid}", "ps -e lists those that can be seen here") from error
    except PermissionError as error:
        barred = barrier()
        hint = barred.hint if barred is not None else "run as its user, or with sudo"
        raise TargetError(f"process {pid} may not be looked at", hint) from error
    if status.state in "ZX":
        raise TargetError(f"process {pid} ({status.name}) has ended and waits for its parent: it has no memory left")
    if status.rss is None and proc_tables.is_kernel_thread(pid):
        raise TargetError(f"process {pid} ({status.name}) is a kernel thread: it has no memory of its own")
    if status.rss is None:
        raise TargetError(f"process {pid} ({status.name}) has ended: it has no memory left")
    return status, status.tgid


ROW = re.compile(rb"^tfd:\s*(\d+)\s+events:\s*[0-9a-f]+\s+data:\s*([0-9a-f]+)", re.MULTILINE)
EPOLL = "anon_inode:[eventpoll]"
TIMER = re.compile(rb"^ID: (\d+)\nsignal: \d+/([0-9a-f]+)$", re.MULTILINE)


def _epoll_words(folder: str) -> Iterator[Watched]:
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
