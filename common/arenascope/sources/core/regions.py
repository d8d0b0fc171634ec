"""The mappings of a core: program headers say where and how, NT_FILE says of which file."""

from __future__ import annotations

from bisect import bisect_right
from typing import Iterator, Mapping, Optional, Sequence

from ..elf.elf_file import PF_R, PF_W, PF_X, Segment
from ..elf.kernel_records import AT_EXECFN, AT_RANDOM, AT_SYSINFO_EHDR, FileMapping
from ..region_index import RegionIndex
from ..target import Region

# shared anonymous memory and System V segments, whose names the kernel makes up
_SHARED = ("/dev/zero", "/SYSV")


def build_regions(
    segments: Sequence[Segment],
    readable_ends: Sequence[int],
    files: Sequence[FileMapping],
    auxv: Mapping[int, int],
    by_gcore: bool = False,
) -> list[Region]:
    """By address. `present` only where every byte is there: the first page of a file mapping alone does not count.

    Permissions are as the core says. gcore makes PROT_NONE readable: since GDB 18 without its bytes, which it writes of
    all else that is no file's.
    """
    rows = sorted(files)
    names = _Names(rows, auxv)
    regions = []
    for segment, readable_end in zip(segments, readable_ends):
        if not segment.memory_size:
            continue
        start, end = segment.address, segment.address + segment.memory_size
        path, offset = names.of(start, end)
        regions.append(
            Region(
                start,
                end,
                readable=bool(segment.flags & PF_R) and not (by_gcore and not path and _is_bare(segment)),
                writable=bool(segment.flags & PF_W),
                executable=bool(segment.flags & PF_X),
                path=path,
                offset=offset,
                shared=path.startswith(_SHARED),
                present=readable_end == end,
            )
        )
    regions += _left_out(rows, regions)
    regions.sort(key=lambda region: region.start)
    return regions


def _is_bare(segment: Segment) -> bool:
    return not segment.file_size and not segment.flags & (PF_W | PF_X)


def _left_out(rows: Sequence[FileMapping], regions: Sequence[Region]) -> Iterator[Region]:
    """What NT_FILE lists and no segment covers: gcore leaves read-only file mappings out altogether."""
    covered = RegionIndex(regions)
    for row in rows:
        if covered.place(row.start) is not None:
            continue
        yield Region(
            row.start,
            row.end,
            readable=True,
            writable=False,
            executable=False,
            path=row.path,
            offset=row.offset,
            shared=False,
            present=False,
        )


class _Names:
    """Names for address ranges."""

    def __init__(self, rows: Sequence[FileMapping], auxv: Mapping[int, int]) -> None:
        self.rows = rows
        self.starts = [row.start for row in rows]
        stack = auxv.get(AT_EXECFN) or auxv.get(AT_RANDOM)
        vdso = auxv.get(AT_SYSINFO_EHDR)
        # as in /proc/PID/maps; "[heap]" cannot be told, as no note holds the program break
        self.special: list[tuple[Optional[int], str]] = [(stack, "[stack]"), (vdso, "[vdso]")]

    def of(self, start: int, end: int) -> tuple[str, int]:
        index = bisect_right(self.starts, start) - 1
        if index >= 0 and start < self.rows[index].end:
            row = self.rows[index]
            return row.path, row.offset + start - row.start
        for address, name in self.special:
            if address and start <= address < end:
                return name, 0
        # the kernel's half of x86-64: the one page there that a core has
        return ("[vsyscall]" if start >= 1 << 63 else ""), 0
