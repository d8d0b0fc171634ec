"""Variables of a file without a table of symbols: code and relocations refer to where each begins.

x86-64 only: on aarch64 GCC's code takes one address for many variables, and reaches each by its distance from that
(section anchors). Where functions mention source files (assertions do), object_files.py tells whose a variable is; else
what the functions that refer to it alone say may tell what it is for: "free_chunks".
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import islice
from typing import Collection, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.count_work import Meter, Unseen
from ..target import Span, joined
from .address_names import names_of
from .elf_file import EM_X86_64, ET_EXEC, MAX_TABLES, PF_W, PF_X, PT_LOAD, SHT_SYMTAB, ElfFile, Segment
from .notes import Buffer
from .object_files import Code, Data
from .unwind import HEADER, PT_GNU_EH_FRAME

WORD = 8
SHT_RELA, SHT_RELR = 4, 19
R_RELATIVE = 8
DISPLACEMENT = 4
LEA, REX_W = 0x8D, 0x48
WHOLE = 2 * WORD
"""So far after a struct's start its members are looked for: begin, end and limit of a vector."""
LIMIT = 256 << 20
"""What lies beyond in a file is not looked at."""
LONGEST_TABLES = 32 << 20
MOST = 1 << 22
"""So much of a kind is looked at in a file that lies."""
LONGEST_PATH = 200
SOURCE = re.compile(rb"(?:\./)?((?:[\w+.-]*/)*)([\w+-][\w.+-]*\.(?:c|cc|cpp|cxx|h|hh|hpp|rs|go))")
ENDING = re.compile(rb"\.(?:c|cc|cpp|cxx|h|hh|hpp|rs|go)\0")
STRING = re.compile(rb"[ -~]{8,80}\n?\0")
LETTER = re.compile(rb"[A-Za-z_]")
LEAST_LETTERS, LETTERS = 8, 0.7
"""In a string that tells something there are so many at least, and such a part."""
MOST_SAID = 64
"""Functions that alone say more than so many strings are for many things."""
MOST_CODE = 64 << 20
"""Of more code strings are not looked for."""
PIECE = 1 << 20
"""So much of it is looked through before that is told."""
LOOKS = 2
"""So many times code is looked through."""
HEADERS = (".h", ".hh", ".hpp")

# instructions with a ModRM byte, of the map of one byte, and how long a number follows the displacement
PLAIN = {
    *(row + column for row in range(0, 0x40, 8) for column in range(4)),
    *(0x63, 0x69, 0x6B, 0x80, 0x81, 0x83, *range(0x84, 0x8C), 0x8D, 0x8F, 0xC0, 0xC1, 0xC6, 0xC7),
    *(*range(0xD0, 0xD4), *range(0xD8, 0xE0), 0xF6, 0xF7, 0xFE, 0xFF),
}
BYTE_FOLLOWS = (0x6B, 0x80, 0x83, 0xC0, 0xC1, 0xC6)
NUMBER_FOLLOWS = (0x69, 0x81, 0xC7)
BYTE_FOLLOWS_0F = (0x70, 0x71, 0x72, 0x73, 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6)


class Variables(NamedTuple):
    """By the addresses that the file was linked for."""

    starts: Sequence[int]
    """In order; each reaches to the next."""
    sources: Mapping[int, str]
    """By where one begins: the source file, or in quotes what the code that uses it says, where that is told."""

    def start_of(self, address: int) -> Optional[int]:
        place = bisect_right(self.starts, address) - 1
        return self.starts[place] if place >= 0 else None


class _Reference(NamedTuple):
    """Code at `place` names the address `target`."""

    place: int
    target: int
    is_taken: bool = True
    """The address itself is meant, not what lies there."""
    is_word: bool = False
    """A word that lies there is meant."""


def bytes_of_code(file: ElfFile) -> int:
    """To be looked through for variables."""
    return LOOKS * sum(each.file_size for each in _loaded(file) if each.flags & PF_X) if _is_told_by_code(file) else 0


def _is_told_by_code(file: ElfFile) -> bool:
    symbols = any(section.type == SHT_SYMTAB for section in file.sections)
    return not symbols and file.machine == EM_X86_64 and file.pointer_size == WORD


def find_variables(file: ElfFile, meter: Optional[Meter] = None) -> Optional[Variables]:
    """None where symbols tell, or this machine's code is not understood."""
    if not _is_told_by_code(file):
        return None
    meter = meter or Unseen()
    loaded = [*islice(_loaded(file), MAX_TABLES)]
    writable = [Span(each.address, each.address + each.memory_size) for each in loaded if each.flags & PF_W]
    paths = dict(islice(_source_paths(file, [each for each in loaded if not each.flags & PF_W]), MOST))
    targets = [*writable, Span(min(paths), max(paths) + LONGEST_PATH)] if paths else writable
    found = (each for code in loaded if code.flags & PF_X for each in _references(file, code, targets, meter))
    references = [*islice(found, MOST)]
    fixed = {each.address for each in file.sections}
    for name in names_of(file):
        fixed.update((name.value, -(-(name.value + name.size) // WORD) * WORD))
    relocated = {*islice(_relocated(file, loaded), MOST)}
    functions = _functions(file)
    uses = _Uses(functions, paths, references)
    # what begins elsewhere is a member, or has no pointer
    starts = [
        each
        for each in sorted({*uses.of, *relocated, *fixed})
        if not each % WORD and any(each in range(*span) for span in writable)
    ]
    if not functions:
        return Variables(starts, {})
    starts = [*_without_members(starts, uses.of, relocated, fixed)]
    told = uses.sources(starts, [*_sections(file, writable)])
    return Variables(starts, {**uses.said(starts, _strings(file, loaded, meter), told), **told})


def _without_members(
    starts: Sequence[int], uses: Mapping[int, _Use], relocated: Collection[int], fixed: Collection[int]
) -> Iterator[int]:
    """Of a list's head and a vector code uses the second word directly, but only where it uses the first; and it takes
    the address of the whole."""
    head = 0
    for start in starts:
        first, here = uses.get(head), uses.get(start)
        if (
            first is None
            or here is None
            or start - head > WHOLE
            or start in fixed
            or start in relocated
            or here.is_taken
            or not (first.is_taken or head in relocated)
            or not (first.is_word and here.is_word and here.functions <= first.functions)
        ):
            head = start
            yield start


def _loaded(file: ElfFile) -> Iterator[Segment]:
    """What the loader maps: each byte once, whatever a file claims that lies."""
    end = 0
    for each in file.segments:
        if each.type == PT_LOAD and end <= each.offset and each.offset + each.file_size <= min(len(file.data), LIMIT):
            end = each.offset + each.file_size
            yield each


def _sections(file: ElfFile, within: Sequence[Span]) -> Iterator[Span]:
    """Each address once."""
    end = 0
    for each in sorted(file.sections, key=lambda each: each.address):
        if each.address >= end and any(low <= each.address < high for low, high in within):
            end = each.address + each.size
            yield Span(each.address, end)


def _references(file: ElfFile, code: Segment, targets: Sequence[Span], meter: Meter) -> Iterator[_Reference]:
    """Operands relative to the instruction's end (ModRM: mod 0, r/m 5); in a file that is not moved addresses, too."""
    data, end, bias = file.data, code.offset + code.file_size, code.address - code.offset
    for low, high in targets:
        last = code.address + code.file_size
        reach = _between(low - last - 2 * DISPLACEMENT, high - code.address)
        pattern = re.compile(rb"[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?=[\s\S]{2}%b)" % reach)
        for at in _places(pattern, data, Span(code.offset + 6, end), meter, of=len(targets)):
            more = _number_after(data[at - 6 : at + 1])
            if more is not None:
                target = at + bias + 1 + DISPLACEMENT + more + _signed(data[at + 1 : at + 5])
                if low <= target < high:
                    taken = data[at - 1] == LEA
                    yield _Reference(at + bias, target, taken, is_word=not taken and data[at - 2] & 0xF8 == REX_W)
        if file.type == ET_EXEC:
            for found in re.compile(rb"(?=[\s\S]{2}%b)" % _between(low, high)).finditer(data, code.offset, end):
                at = found.start()
                target = _signed(data[at : at + DISPLACEMENT])
                if low <= target < high:
                    yield _Reference(at + bias, target)


def _places(pattern: re.Pattern[bytes], data: Buffer, within: Span, meter: Meter, *, of: int) -> Iterator[int]:
    """Where it is found, of one of so many looks."""
    for low in range(within.start, within.end, PIECE):
        high = min(low + PIECE, within.end)
        # what begins in this piece may end in the next
        for found in pattern.finditer(data, low, min(high + DISPLACEMENT, within.end)):
            if found.start() < high:
                yield found.start()
        meter.advance((high - low) // of)


def _signed(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _between(low: int, high: int) -> bytes:
    """A pattern for the upper two of four bytes of the numbers from `low` to `high`."""
    first, last = max(low, -1 << 31) >> 16, min(high, (1 << 31) - 1) >> 16
    by_top: dict[int, list[int]] = {}
    for half in range(first, last + 1):
        by_top.setdefault(half >> 8 & 255, []).append(half & 255)
    parts = (rb"[\x%02x-\x%02x]\x%02x" % (each[0], each[-1], top) for top, each in by_top.items())
    return rb"(?:%b)" % b"|".join(parts) if by_top else rb"(?!)"


def _number_after(code: bytes) -> Optional[int]:
    """How many bytes of a number follow the displacement of the instruction whose ModRM byte is the last; None: no
    instruction is written so."""
    first, _, third, second, before, operation, form = code
    register = form >> 3 & 7
    if before == 0x0F:
        return int(operation in BYTE_FOLLOWS_0F)
    if second == 0x0F and before in (0x38, 0x3A):
        return int(before == 0x3A)
    if third == 0xC4 and second & 0x1F in (1, 2, 3):
        return int(second & 0x1F == 3)
    if operation in PLAIN:
        if operation in BYTE_FOLLOWS or (operation == 0xF6 and register < 2):
            return 1
        if operation in NUMBER_FOLLOWS or (operation == 0xF7 and register < 2):
            return 2 if before == 0x66 or (second == 0x66 and before & 0xF0 == 0x40) else 4
        return 0
    return 0 if first == 0x62 or second == 0xC5 else None


def _relocated(file: ElfFile, loaded: Sequence[Segment]) -> Iterator[int]:
    """What data has addresses of: the loader writes them, or it has nothing to add to them."""
    if file.type == ET_EXEC:
        for each in loaded:
            yield from array("Q", file.read(each.offset, each.file_size // WORD * WORD)) if each.flags & PF_W else ()
    for _, kind, addend in struct.iter_unpack("<QQq", _tables(file, SHT_RELA, 24)):
        if kind == R_RELATIVE:
            yield addend
    for place in _packed(array("Q", _tables(file, SHT_RELR, WORD))):
        for each in loaded:
            if each.address <= place <= each.address + each.file_size - WORD:
                at = place - each.address + each.offset
                yield int.from_bytes(file.data[at : at + WORD], "little")


def _tables(file: ElfFile, kind: int, entry: int) -> bytes:
    """What sections of a kind have: each byte once."""
    spans = joined(sorted((each.offset, each.offset + each.size) for each in file.sections if each.type == kind))
    data = b"".join(file.data[start : min(end, start + LONGEST_TABLES)] for start, end in spans[:MAX_TABLES])
    return data[: len(data) // entry * entry]


def _packed(words: Sequence[int]) -> Iterator[int]:
    """The places of DT_RELR: an address, then bitmaps of the words after it."""
    at = 0
    for word in words:
        if not word & 1:
            yield word
            at = word + WORD
        else:
            yield from (at + WORD * (bit - 1) for bit in range(1, 64) if word >> bit & 1)
            at += 63 * WORD


def _source_paths(file: ElfFile, constants: Sequence[Segment]) -> Iterator[tuple[int, bytes]]:
    """Strings that are paths of source files, with their addresses."""
    for segment in constants:
        for found in ENDING.finditer(file.data, segment.offset, segment.offset + segment.file_size):
            end = found.end() - 1
            start = file.data.rfind(b"\0", max(segment.offset, end - LONGEST_PATH), end) + 1
            if start and SOURCE.fullmatch(file.data, start, end):
                yield start - segment.offset + segment.address, file.data[start:end]


def _strings(file: ElfFile, loaded: Sequence[Segment], meter: Meter) -> Iterator[tuple[int, bytes]]:
    """What code takes the address of, with where."""
    constants = [each for each in loaded if not each.flags & (PF_W | PF_X)]
    spans = [Span(each.address, each.address + each.file_size) for each in constants]
    code = [each for each in loaded if each.flags & PF_X]
    if sum(each.file_size for each in code) > MOST_CODE:
        return
    references = (ref for each in code for ref in _references(file, each, spans, meter))
    for place, target, is_taken, _ in islice(references, MOST):
        held = next((each for each in constants if is_taken and 0 <= target - each.address < each.file_size), None)
        found = STRING.match(file.data, target - held.address + held.offset) if held is not None else None
        # what begins within another one is more often chance than the end that two share
        if found is not None and file.data[found.start() - 1] == 0:
            text = found[0][:-1].strip()
            if len(LETTER.findall(text)) >= max(LEAST_LETTERS, LETTERS * len(text)):
                yield place, text


def _functions(file: ElfFile) -> list[int]:
    """Where each begins, by .eh_frame_hdr."""
    for segment in file.segments[:MAX_TABLES]:
        if segment.type == PT_GNU_EH_FRAME and file.data[segment.offset : segment.offset + len(HEADER)] == HEADER:
            size = min(segment.file_size - 12, LONGEST_TABLES) // 8 * 8
            offsets = array("i", file.read(segment.offset + 12, size))[::2] if size > 0 else ()
            return sorted(segment.address + each for each in offsets)
    return []


class _Use:
    """How code uses one address."""

    def __init__(self) -> None:
        self.functions: set[int] = set()
        self.is_taken = self.is_word = False


class _Uses:
    """What functions use, and which source files they mention."""

    def __init__(self, functions: Sequence[int], paths: Mapping[int, bytes], references: Iterable[_Reference]) -> None:
        self._functions, self._paths, self._begins = functions, paths, sorted(paths)
        self._mentioned: dict[int, set[str]] = {}
        self.of: dict[int, _Use] = {}
        low, high = (self._begins[0], self._begins[-1] + LONGEST_PATH) if self._begins else (0, 0)
        for place, target, is_taken, is_word in references:
            function = bisect_right(functions, place)
            path = self._path(target) if low <= target < high else None
            if path is not None:
                self._mentioned.setdefault(function, set()).add(path)
                continue
            use = self.of.setdefault(target, _Use())
            use.functions.add(function)
            use.is_taken |= is_taken
            use.is_word |= is_word

    def sources(self, starts: Sequence[int], sections: Sequence[Span]) -> dict[int, str]:
        """Of each variable the file that it is in, by where it lies and which functions use it."""
        code = Code(dict(self._bodies()))
        users = self._users(starts)
        told: dict[int, Optional[str]] = {}
        for low, high in sections:
            within = starts[bisect_left(starts, low) : bisect_left(starts, high)]
            data = Data(code, {each: users.get(each, set()) for each in within})
            told.update((each, data.source_of(each)) for each in within)
        return {start: source for start, source in told.items() if source is not None}

    def _bodies(self) -> Iterator[tuple[int, str]]:
        """Of each function the source file that it mentions, where that is one; headers are mentioned anywhere."""
        for function, files in self._mentioned.items():
            bodies = [each for each in files if not each.endswith(HEADERS)]
            if len(bodies) == 1:
                yield function, bodies[0]

    def _users(self, starts: Sequence[int]) -> dict[int, set[int]]:
        """Of each variable the functions that use it."""
        users: dict[int, set[int]] = {}
        for target, use in self.of.items():
            at = bisect_right(starts, target) - 1
            if at >= 0:
                users.setdefault(starts[at], set()).update(use.functions)
        return users

    def said(
        self, starts: Sequence[int], strings: Iterable[tuple[int, bytes]], told: Collection[int]
    ) -> dict[int, str]:
        """Of each other variable what functions that use it say, as many as can be, and no other function."""
        by_function: dict[int, set[bytes]] = {}
        speakers: Counter[bytes] = Counter()
        for place, text in strings:
            of = by_function.setdefault(bisect_right(self._functions, place), set())
            speakers[text] += text not in of
            of.add(text)
        said: dict[int, str] = {}
        for start, who in self._users(starts).items():
            counts = Counter(text for each in who for text in by_function.get(each, ())) if start not in told else {}
            own = [text for text, count in counts.items() if count == speakers[text]]
            if 0 < len(own) <= MOST_SAID:
                said[start] = f'"{min(own, key=lambda text: (-counts[text], len(text), text)).decode()}"'
        return said

    def _path(self, target: int) -> Optional[str]:
        at = bisect_right(self._begins, target) - 1
        path, within = (self._paths[self._begins[at]], target - self._begins[at]) if at >= 0 else (b"", 0)
        # linkers let strings share their ends: shop/till.c and till.c
        begins = not within or path[within - 1 : within] == b"/"
        found = SOURCE.fullmatch(path, within) if begins else None
        if found is None:
            return None
        folder, name = found.groups()
        # where a program was built tells nobody anything
        return (name if folder.startswith((b"/", b"../")) else folder + name).decode()
