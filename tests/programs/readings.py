"""What a block must be that has a name, read from /proc/PID/mem without arenascope: bytes that such a thing has by its
program's or library's own definition."""

from __future__ import annotations

import os
import re
import string
import struct
import subprocess
from array import array
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Optional, Sequence

PRINTABLE = set(string.printable.encode()) | {0x1B}
LOOKED_AT = 256
FRONTS = (0, 8, 16, 24)
"""Bytes that a program or its allocator has in front of what pointers lead to."""


class Block(NamedTuple):
    user: int
    usable: int
    name: str
    how: str = ""


class Mapping(NamedTuple):
    start: int
    end: int
    rights: str
    path: str
    offset: int


class Process:
    """One that stands still."""

    def __init__(self, pid: int, blocks: Sequence[Block], drawn: Sequence[Block]) -> None:
        self.pid = pid
        self.by_user = {each.user: each for each in blocks}
        self.names = {each.name for each in blocks}
        self.starts = {each.user + front for each in blocks for front in FRONTS}
        self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        self.mappings: list[Mapping] = []
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            start, end = (int(each, 16) for each in words[0].split("-"))
            path = words[5] if len(words) > 5 else ""
            self.mappings.append(Mapping(start, end, words[1], path, int(words[2], 16)))
        self.drawn = drawn
        self._places: Optional[dict[int, list[int]]] = None

    def close(self) -> None:
        os.close(self._memory)

    def read(self, address: int, size: int) -> bytes:
        """As much of it as can be read."""
        try:
            return os.pread(self._memory, size, address)
        except (OSError, OverflowError):
            return b""

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """As many, and zeros for those that cannot be read."""
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count).ljust(8 * count, b"\0"))

    def word(self, address: int) -> int:
        return self.words(address, 1)[0]

    def string(self, address: int) -> bytes:
        return self.read(address, 4096).split(b"\0")[0]

    def mapping(self, address: int) -> Optional[Mapping]:
        return next((each for each in self.mappings if each.start <= address < each.end), None)

    def is_code(self, address: int) -> bool:
        found = self.mapping(address)
        return found is not None and "x" in found.rights

    def pointers_to(self, address: int) -> Sequence[int]:
        """Where all of its memory that can be written to has this word, which is where a drawn block begins or a header
        behind that."""
        if self._places is None:
            self._places = {each.user + front: [] for each in self.drawn for front in FRONTS}
            places = self._places
            for mapping in self.mappings:
                if mapping.rights.startswith("rw") and mapping.path != "[vvar]":
                    words = array("Q", self.read(mapping.start, mapping.end - mapping.start))
                    for at, word in enumerate(words):
                        if word in places:
                            places[word].append(mapping.start + 8 * at)
        return self._places[address]


Reading = Callable[[Process, Block], bool]


# by their bytes


def is_text(process: Process, block: Block) -> bool:
    encoding = block.name.partition(", ")[2]
    data = process.read(block.user, min(block.usable, LOOKED_AT))
    if encoding in ("ASCII", "UTF-8"):
        text, _, rest = data.partition(b"\0")
        letters = text.decode("utf-8", "ignore")
        if encoding == "ASCII":
            return len(text) > 3 and set(text) <= PRINTABLE and (len(text) >= len(rest) or not rest.strip(b"\0"))
        return len(letters) > 3 and not letters.isascii() and len(letters.encode()) > len(text) - 4
    letters = data.decode(encoding + "-le", "ignore").split("\0")[0]
    return len(letters) > 3


def is_zero(process: Process, block: Block) -> bool:
    return not process.read(block.user, min(block.usable, LOOKED_AT)).strip(b"\0")


def is_all_zero(process: Process, block: Block) -> bool:
    return not process.read(block.user, block.usable).strip(b"\0")


def has_pointers(process: Process, block: Block) -> bool:
    count = min(block.usable, LOOKED_AT) // 8
    words = [each for each in process.words(block.user, count) if each]
    found = [process.mapping(each) for each in words]
    return 4 * sum(1 for each in found if each is not None and "w" in each.rights) >= 3 * len(words)


def usable_at(process: Process, user: int) -> int:
    """By malloc's header, if that is a block's."""
    return (process.word(user - 8) & ~7) - 8


def leads_back(process: Process, block: Block) -> bool:
    """Either side does, over two steps."""
    for place in (0, 1):
        near = process.word(block.user + 8 * place)
        further = process.word(near + 8 * place)
        if process.word(near + 8 - 8 * place) != block.user or process.word(further + 8 - 8 * place) != near:
            return False
    return True


def is_in_list(process: Process, block: Block) -> bool:
    """Of nodes of less than a kilobyte, as one of its neighbours is."""
    sizes = {usable_at(process, each) for each in process.words(block.user, 2) if each != block.user}
    alike = any(abs(size - block.usable) <= 16 for size in sizes)
    return (alike and block.usable < 1024 and leads_back(process, block)) or is_counted(process, block)


def is_counted(process: Process, block: Block) -> bool:
    """Of a list that has one that is no node, but how many there are."""
    around, counts = [block.user], []
    while len(around) < 1 << 16:
        after, _, count = process.words(around[-1], 3)
        counts.append(count)
        if process.word(after + 8) != around[-1]:
            return False
        if after == block.user:
            break
        around.append(after)
    return len(around) - 1 in counts[1:]


def is_in_tree(process: Process, block: Block) -> bool:
    """libstdc++'s: each is its parent's child, up to the root, whose parent is the header and has it as its own."""
    at = block.user
    for _ in range(64):
        _, above, *_ = process.words(at, 4)
        _, over, left, right = process.words(above, 4)
        if over == at != above:
            return bool(left and right)
        if at not in (left, right):
            return False
        at = above
    return False


# by vtables


@cache
def tables_of(path: str) -> dict[int, str]:
    """The symbols of a file's vtables, by their places in it."""
    found: dict[int, str] = {}
    for options in (["-D"], []):
        said = subprocess.run(["nm", *options, "--defined-only", path], capture_output=True, text=True).stdout
        found.update((int(line.split()[0], 16), line.split()[2]) for line in said.splitlines() if " _ZTV" in line)
    return found


@cache
def demangled(*words: str) -> str:
    return subprocess.run(["c++filt", *words], capture_output=True, text=True).stdout.strip()


def class_of(process: Process, table: int) -> str:
    """Of an object with this vtable, by its type_info, or by the table's symbol."""
    above, info = process.words(table - 16, 2)
    if above:
        return ""
    if info:
        return demangled("-t", process.string(process.word(info + 8)).lstrip(b"*").decode(errors="replace"))
    found = process.mapping(table)
    if found is None or not found.path.startswith("/"):
        return ""
    first = min(each.start - each.offset for each in process.mappings if each.path == found.path)
    tables = tables_of(found.path)
    return demangled(tables.get(table - 16 - first, tables.get(table - 16, "")).split("@")[0])


def words_in(name: str) -> set[str]:
    return set(re.findall(r"\w+", name))


def is_object(process: Process, block: Block) -> bool:
    """All words of its name are in its class's."""
    if block.how == "its control block":
        heads = [each & ~15 for each in process.pointers_to(block.user)]
        holders = [each for head in heads for each in (head, head - 16) if each in process.by_user]
        return any(words_in(block.name) <= words_in(class_of(process, process.word(each))) for each in holders)
    return words_in(block.name) - {"string"} <= words_in(class_of(process, process.word(block.user)))


def is_control(process: Process, block: Block) -> bool:
    own = class_of(process, process.word(block.user))
    held = re.sub(r"make_shared|control block of shared_ptr", "", block.name)
    return re.search("_Sp_counted|sp_counted_impl|__shared_ptr", own) is not None and (
        words_in(held) - {"string"} <= words_in(own)
    )


# by what points to them


def has_pointer(process: Process, block: Block) -> bool:
    """At the place that its name tells, where that is a block's."""
    named = re.fullmatch(r"(.+)\+(\d+) body", block.name)
    places = process.pointers_to(block.user)
    if named and named[1] in process.names:
        heads = (each - int(named[2]) for each in places)
        return any(head in process.by_user and process.by_user[head].name == named[1] for head in heads)
    return bool(places)


def holders_of(process: Process, block: Block, before: int, after: int) -> Iterator[tuple[int, ...]]:
    """The words around each pointer to a block."""
    for place in process.pointers_to(block.user):
        yield process.words(place - 8 * before, before + 1 + after)


def is_string(process: Process, block: Block) -> bool:
    wide = 2 if "u16" in block.name else 4 if "wstring" in block.name else 1
    return any(
        length <= room and wide * (room + 1) <= block.usable < wide * (room + 1) + 32
        for _, length, room in holders_of(process, block, 0, 2)
    )


def is_vector(process: Process, block: Block) -> bool:
    return any(
        start <= end <= limit and limit - start <= block.usable < limit - start + 32
        for start, end, limit in holders_of(process, block, 0, 2)
    )


def is_function(process: Process, block: Block) -> bool:
    return any(
        process.is_code(manager) and process.is_code(invoker)
        for _, _, manager, invoker in holders_of(process, block, 0, 3)
    )


def is_hash_node(process: Process, block: Block) -> bool:
    """The bucket that leads to it is that of the node in front, or of the container: some pointer is all there is."""
    after = process.word(block.user)
    return (not after or after in process.by_user) and any(process.pointers_to(block.user))


def is_stdio(process: Process, block: Block) -> bool:
    return any(process.word(each - 56) >> 16 & 0xFFFF == 0xFBAD for each in process.pointers_to(block.user))


def is_cache(process: Process, block: Block) -> bool:
    """tcache_perthread_struct: a list is empty where none is counted."""
    counts = struct.unpack("<64H", process.read(block.user, 128))
    lists = process.words(block.user + 128, 64)
    return all((not count) == (not first) for count, first in zip(counts, lists))


def is_pool(process: Process, block: Block) -> bool:
    """Of libstdc++: where it is, and how large, in one of its variables."""
    return any(
        first <= block.user + block.usable and size <= block.usable < size + 32
        for first, _, size in holders_of(process, block, 1, 1)
    )


# of GLib and Rust


def is_table_of_glib(process: Process, table: int) -> bool:
    """As many of its hashes are of entries (0 is empty, 1 deleted) as it says, and it has a power of two of places."""
    size, _, count, _, _, hashes = process.words(table, 6)
    if not 0 < size < 1 << 26 or size & size - 1:
        return False
    data = process.read(hashes, 4 * size)
    return len(data) == 4 * size and sum(each > 1 for each in array("I", data)) == count & 0xFFFFFFFF


def is_hash_table(process: Process, block: Block) -> bool:
    return is_table_of_glib(process, block.user)


def is_of_hash_table(process: Process, block: Block) -> bool:
    places = {"keys": 32, "hashes": 40, "values": 48}
    # a set has its keys as its values
    own = places.values() if block.name.endswith("keys") else [places[block.name.rpartition(" ")[2]]]
    return any(is_table_of_glib(process, each - front) for each in process.pointers_to(block.user) for front in own)


def is_glist(process: Process, block: Block) -> bool:
    _, after, before = process.words(block.user, 3)
    return (not after or process.word(after + 16) == block.user) and (
        not before or process.word(before + 8) == block.user
    )


def is_gstring(process: Process, block: Block) -> bool:
    text, length, room = process.words(block.user, 3)
    return length < room and process.read(text + length, 1) == b"\0"


def is_gslice_page(process: Process, block: Block) -> bool:
    """Near its end two words lead to neighbours that lead back."""
    end = block.user + block.usable & ~7
    for info in range(end - 96, end, 8):
        after, before = process.words(info + 16, 2)
        if after and before and process.word(after + 24) == info == process.word(before + 16):
            return True
    return False


def is_hashbrown(process: Process, block: Block) -> bool:
    """A byte for each place comes after the entries, and the first 16 of them once more."""
    data = process.read(block.user, block.usable)
    for bits in range(2, 40):
        for at in range((block.usable - (1 << bits) - 16) & ~15, 0, -16):
            own = data[at : at + (1 << bits)]
            if block.usable - at - len(own) - 16 >= 48:
                break
            again = data[at + len(own) :][: min(16, len(own))]
            if own and own[: len(again)] == again and all(each < 0x80 or each in (0x80, 0xFF) for each in own):
                return True
    return False


# of node, HotSpot, zlib


def is_zlib(process: Process, block: Block) -> bool:
    """Its z_stream is 7 words in front of the pointer to it, and has functions to allocate next."""
    for front in FRONTS:
        stream = process.word(block.user + front)
        if process.word(stream + 56) == block.user + front and process.is_code(process.word(stream + 64)):
            return True
    return False


def is_of_zlib(process: Process, block: Block) -> bool:
    """A state leads to it, and a stream to the state."""
    for front in FRONTS:
        for place in process.pointers_to(block.user + front):
            below = (each for each in process.by_user.values() if each.user <= place < each.user + each.usable)
            if any(is_zlib(process, each) for each in below):
                return True
    return False


def is_buffer_of_v8(process: Process, block: Block) -> bool:
    """Its BackingStore has how much there is twice, now and at most."""
    return any(now <= most and now <= block.usable < now + 4096 for _, now, most in holders_of(process, block, 0, 2))


def is_zone(process: Process, block: Block) -> bool:
    zone, after, size = process.words(block.user, 3)
    return size == block.usable and (not after or process.word(after) == zone) and zone != 0


def is_string_table(process: Process, block: Block) -> bool:
    """As many strings as it says."""
    _, counts, room = process.words(block.user, 3)
    entries = Counter(process.words(block.user + 24, room & 0xFFFFFFFF))
    # what stands for an empty place does so many times, and what for a deleted one may
    strings = sum(1 for each, times in entries.items() if each and times == 1)
    return abs(strings - (counts & 0xFFFFFFFF)) <= 1 + (counts >> 32)


def is_symbol(process: Process, block: Block) -> bool:
    """Its letters are all that it has been given room for."""
    return bool(letters_of(process, block.user)) and 0 <= block.usable - 6 - len(letters_of(process, block.user)) < 32


def letters_of(process: Process, symbol: int) -> bytes:
    (length,) = struct.unpack("<H", process.read(symbol + 4, 2).ljust(2, b"\0"))
    letters = process.read(symbol + 6, length)
    try:
        return letters if letters.decode("utf-8", "surrogatepass") else b""
    except UnicodeDecodeError:
        return b""


def hash_of(letters: bytes) -> int:
    """java_lang_String::hash_code, of bytes."""
    hashed = 0
    for each in letters:
        hashed = hashed * 31 + each & 0xFFFFFFFF
    return hashed


def is_symbol_node(process: Process, block: Block) -> bool:
    """It and the next one are in the same bucket, of which there are at least 2**10."""
    after, symbol = process.words(block.user, 2)
    letters = letters_of(process, symbol)
    if not after:
        return bool(letters)
    return (hash_of(letters) ^ hash_of(letters_of(process, process.word(after + 8)))) % (1 << 10) == 0


def is_chunk(process: Process, block: Block) -> bool:
    """Of an arena: the next one's length is one of Chunk's, and its own is what was asked for."""
    after, length = process.words(block.user, 2)
    lengths = [216, 984, 10200, 32728]
    return (
        length in lengths and 0 <= block.usable - length - 16 < 32 and (not after or process.word(after + 8) in lengths)
    )


def is_direct_buffer(process: Process, block: Block) -> bool:
    """Of ByteBuffer.allocateDirect: a DirectByteBuffer has its address and, after that, its capacity."""
    rest = 32 if block.usable < 128 << 10 else 4096
    for place in process.pointers_to(block.user):
        numbers = struct.unpack("<4I", process.read(place + 8, 16).ljust(16, b"\0"))
        if any(0 < each <= block.usable < each + rest for each in numbers):
            return True
    return False


def is_tracked(process: Process, block: Block) -> bool:
    """By native memory tracking: how many bytes it has, a mark in front of these and one behind."""
    size, marks = process.words(block.user, 2)
    behind = process.read(block.user + 16 + size, 2) if size < block.usable else b""
    return marks >> 48 == 0xE99E and behind == b"\xe8\x8e"


# of CPython


def type_name(process: Process, object_: int) -> str:
    return process.string(process.word(process.word(object_ + 8) + 24)).decode(errors="replace")


def is_python(process: Process, block: Block) -> bool:
    return any(type_name(process, block.user + front) == block.name for front in (0, 16, 32))


def has_objects(process: Process, block: Block) -> bool:
    """Each word is an object, by its type's type, or none."""
    words = [each for each in process.words(block.user, min(block.usable, LOOKED_AT) // 8) if each]
    return all(type_name(process, process.word(each + 8)) in ("type", "ABCMeta", "EnumType") for each in words[:8])


def is_table_of_keys(process: Process, block: Block) -> bool:
    """A dict leads to it."""
    return any(
        type_name(process, each - 32) == "dict" or process.mapping(each) is not None
        for each in process.pointers_to(block.user)
    )


# of redis


def sds_at(process: Process, text: int) -> Optional[bytes]:
    kind = process.read(text - 1, 1)
    size = (0, 1, 2, 4, 8)[kind[0] & 7] if kind and kind[0] & 7 < 5 else 0
    length = int.from_bytes(process.read(text - 1 - 2 * size, size), "little") if size else (kind or b"\0")[0] >> 3
    found = process.read(text, length + 1) if length < 1 << 30 else b""
    return found[:-1] if len(found) == length + 1 and not found[-1] else None


def is_sds(process: Process, block: Block) -> bool:
    texts = [sds_at(process, block.user + past) for past in (1, 3, 5, 9, 17)]
    return any(each is not None and len(each) <= block.usable for each in texts)


def is_robj(process: Process, block: Block) -> bool:
    first, value = process.words(block.user, 2)
    kind, encoding = first & 15, first >> 4 & 15
    if kind == 0 and encoding == 8:
        return value == block.user + 19 and sds_at(process, value) is not None
    if kind == 0 and encoding == 0:
        return sds_at(process, value) is not None
    return kind < 7 and encoding < 12 and first >> 32 > 0


def is_entry(process: Process, block: Block) -> bool:
    return sds_at(process, process.word(block.user)) is not None


def is_dict(process: Process, block: Block) -> bool:
    """Its entries are as many as it says."""
    _, *tables, one, other = process.words(block.user, 5)
    powers = struct.unpack("<2b", process.read(block.user + 50, 2))
    found = 0
    for table, power in zip(tables, powers):
        for entry in process.words(table, 1 << power) if table and power >= 0 else ():
            while entry:
                entry, found = process.word(entry + 16), found + 1
    return found == one + other


def is_dict_table(process: Process, block: Block) -> bool:
    entries = [each for each in process.words(block.user, block.usable // 8) if each]
    return all(sds_at(process, process.word(each)) is not None for each in entries[:20])


# of others


def is_context(process: Process, block: Block) -> bool:
    """struct AllocBlockData begins with its context, but for a context's own block; its name is in that."""
    first = process.word(block.user)
    for context in (block.user, first):
        if any(process.string(each).decode(errors="replace") == block.name for each in process.words(context, 10)[5:]):
            return True
    return block.name == "freed memory context" and any(
        not process.words(context, 4)[3] for context in (block.user, first)
    )


def is_slab_page(process: Process, block: Block) -> bool:
    return process.read(block.user + 40, 1)[0] & 63 == int(block.name.rsplit(" ", 1)[1])


def is_sqlite_page(process: Process, block: Block) -> bool:
    """Behind it struct PgHdr1 has its address."""
    size = 1 << block.usable.bit_length() - 1
    return any(process.word(block.user + front + size) == block.user + front for front in (0, 8))


def is_memory_root(process: Process, block: Block) -> bool:
    """st_used_mem after my_malloc's header: the next one, what is left, the size."""
    _, left, size = process.words(block.user + 24, 3)
    return left <= size <= block.usable - 24 < size + 4096


def is_memory_heap(process: Process, block: Block) -> bool:
    """InnoDB's mem_block_info_t: of the first block the list of its blocks leads to itself, the others lead back."""
    own = block.user + 24
    words = process.words(own, 10)
    return words[1] == own or any(own in process.words(each, 10) for each in words if each in process.starts)


def after_front(process: Process, block: Block) -> Block:
    """What a block is for: MariaDB's own allocators put in front whose it is and how many bytes it has, a JVM that
    tracks its memory how many and of what."""
    if is_tracked(process, block):
        return block._replace(user=block.user + 16, usable=block.usable - 16)
    _, own, all_ = process.words(block.user, 3)
    sizes = (own & ~7) + 24, all_
    rest = 32 if block.usable < 128 << 10 else 4096
    if block.usable < 32 or not any(size <= block.usable < size + rest and size > 24 for size in sizes):
        return block
    return block._replace(user=block.user + 24, usable=block.usable - 24)


def is_pool_of_nginx(process: Process, block: Block) -> bool:
    """What is used of it goes up to `last`. The first block of a pool leads to the one in use; that leads to others."""
    last, end, _, _, most, current = process.words(block.user, 6)
    first = most <= 4095 and process.word(current + 8) - current == end - block.user
    within = block.user + 32 <= last <= end <= block.user + block.usable
    return within and (first or any(process.word(each - 8) - each + 16 for each in process.pointers_to(block.user)))


def is_chunk_of_obstack(process: Process, block: Block) -> bool:
    """struct obstack leads to the last one and has its end as well; that leads to the one before."""
    limit = process.word(block.user)
    leads = process.pointers_to(block.user)
    return block.usable - 32 < limit - block.user <= block.usable and any(
        process.word(each + 24) == limit or process.word(each - 8) > each for each in leads
    )


def is_perl_string(process: Process, block: Block) -> bool:
    """A head has it in its last word, and its body, which the head leads to, says how much room there is."""
    for place in process.pointers_to(block.user):
        body = process.word(place - 16)
        used, room = process.words(body + 16, 2)
        if used <= room and room <= block.usable < room + 32:
            return True
    return False


def is_perl_array(process: Process, block: Block) -> bool:
    return any(
        8 * (process.word(process.word(place - 16) + 24) + 1) <= block.usable
        for place in process.pointers_to(block.user)
    )


def is_perl_key(process: Process, block: Block) -> bool:
    length = int.from_bytes(process.read(block.user + 28, 4), "little")
    return process.word(block.user + 8) == block.user + 24 and 0 <= block.usable - 34 - length < 32


def are_perl_heads(process: Process, block: Block) -> bool:
    """The first head says how many there are."""
    return 0 <= block.usable - 24 * process.word(block.user + 8) < 32


def is_pointed_to(process: Process, block: Block) -> bool:
    return any(process.pointers_to(block.user))


def is_ruby_string(process: Process, block: Block) -> bool:
    """RString: flags with T_STRING, its class, its length, where it is, how much room there is."""
    return any(
        flags & 31 == 5 and length <= room and room <= block.usable < room + 36
        for flags, _, length, _, room in holders_of(process, block, 3, 1)
    )


def is_ruby_array(process: Process, block: Block) -> bool:
    return any(
        flags & 31 == 7 and length <= room and 8 * room <= block.usable < 8 * room + 32
        for flags, _, length, room, _ in holders_of(process, block, 4, 0)
    )


def is_ruby_object(process: Process, block: Block) -> bool:
    return any(flags & 31 == 1 for flags, *_ in holders_of(process, block, 3, 0))


def is_st_table(process: Process, block: Block) -> bool:
    power = process.read(block.user, 1)[0]
    return usable_at(process, process.word(block.user + 48)) >= 24 << power


def zend_hash(text: bytes) -> int:
    """DJBX33A, of signed bytes."""
    hashed = 5381
    for byte in text:
        hashed = hashed * 33 + (byte ^ 0x80) - 0x80 & (1 << 64) - 1
    return hashed | 1 << 63


def zend_text(process: Process, place: int) -> bytes:
    return process.read(place + 24, min(process.word(place + 16), 1 << 20))


def is_zend_string(process: Process, block: Block) -> bool:
    return process.word(block.user + 8) in (0, zend_hash(zend_text(process, block.user)))


def is_zend_function(process: Process, block: Block) -> bool:
    name = zend_text(process, process.word(block.user + 8))
    return bool(name) and name.replace(b"_", b"").isalnum()


def is_zend_table(process: Process, block: Block) -> bool:
    places = 1 << (block.usable // 40).bit_length() - 1
    buckets = struct.iter_unpack("<4Q", process.read(block.user + 8 * places, 32 * min(places, 16)))
    return all(
        not kind & 0xFF or not key or hashed == zend_hash(zend_text(process, key)) for _, kind, hashed, key in buckets
    )


def is_vec(process: Process, block: Block) -> bool:
    """How much room there is stands in front of the pointer, how much of it is used behind."""
    return any(0 < length <= room <= block.usable for room, _, length in holders_of(process, block, 1, 1))


def is_rust_table(process: Process, block: Block) -> bool:
    """After the entries a byte for each place, the first sixteen of them once more at the block's end."""
    data = process.read(block.user, block.usable)
    return any(
        data[at : at + 16] == data[at + places :][:16] and 0xFF in data[at : at + places]
        for places in (1 << bits for bits in range(4, 30))
        for at in range(max(16, block.usable - places - 48) // 16 * 16, block.usable - places - 15, 16)
    )


READINGS: Sequence[tuple[str, Reading]] = (
    (r"text, .*", is_text),
    ("zeros", is_all_zero),
    ("first bytes are zero", is_zero),
    ("mostly pointers", has_pointers),
    ("list node", is_in_list),
    ("pages, linked", leads_back),
    ("std::map or set node", is_in_tree),
    ("std::unordered_map node", is_hash_node),
    ("std::unordered_map buckets|std::deque body", is_pointed_to),
    ("std::(w|u16)?string body", is_string),
    ("std::vector body", is_vector),
    ("std::function body", is_function),
    ("stdio buffer", is_stdio),
    ("glibc's thread cache", is_cache),
    ("libstdc\\+\\+'s emergency pool", is_pool),
    ("GHashTable", is_hash_table),
    ("GHashTable (keys|hashes|values)", is_of_hash_table),
    ("GList node", is_glist),
    ("GString", is_gstring),
    ("GString text", is_pointed_to),
    ("GSlice page", is_gslice_page),
    ("HashMap or HashSet table", is_hashbrown),
    ("zlib (de|in)flate state", is_zlib),
    ("zlib .*", is_of_zlib),
    ("ArrayBuffer data", is_buffer_of_v8),
    ("V8 zone .*", is_zone),
    ("V8 string table", is_string_table),
    ("HotSpot Symbol", is_symbol),
    ("HotSpot SymbolTable node", is_symbol_node),
    ("HotSpot arena chunk", is_chunk),
    (r"HotSpot .* \(NMT\)", is_tracked),
    ("Java direct buffer", is_direct_buffer),
    ("dict keys|shared dict keys", is_table_of_keys),
    ("list items|set table|deque block|.* data|bytearray bytes", is_pointed_to),
    ("sds", is_sds),
    ("robj", is_robj),
    ("dictEntry", is_entry),
    ("dict", is_dict),
    ("dict table", is_dict_table),
    ("slab pages of class .*", is_slab_page),
    ("sqlite page cache", is_sqlite_page),
    ("MEM_ROOT block", is_memory_root),
    ("mem_heap block", is_memory_heap),
    ("ngx_pool_t block", is_pool_of_nginx),
    ("obstack chunk", is_chunk_of_obstack),
    (r"Perl string \(PV\)", is_perl_string),
    ("Perl (array|hash) .*", is_perl_array),
    ("Perl shared hash key .*", is_perl_key),
    ("Perl SV arena", are_perl_heads),
    ("Perl body arena|Perl list of body arenas", is_pointed_to),
    ("Ruby String text", is_ruby_string),
    ("Ruby Array elements", is_ruby_array),
    ("Ruby object's variables", is_ruby_object),
    ("st_table", is_st_table),
    ("st_table (entries|bins)", is_pointed_to),
    ("zend_string", is_zend_string),
    ("zend_internal_function", is_zend_function),
    ("HashTable buckets", is_zend_table),
    ("Vec.* body", is_vec),
    ("HashMap or HashSet table", is_rust_table),
    (".* body", has_pointer),
)
BY_KIND: dict[str, Reading] = {"c++": is_object, "control": is_control, "python": is_python}


def reading_of(name: str, kind: str, program: str) -> Optional[Reading]:
    for pattern, reading in READINGS:
        if re.fullmatch(pattern, name):
            return reading
    return is_context if program == "postgres" else BY_KIND.get(kind)
