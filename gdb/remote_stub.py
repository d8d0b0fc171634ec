"""Asks a remote stub (gdbserver, an emulator) over GDB's connection for more than memory and registers.

Files are those of the stub's machine: the process's mappings are in /proc there, not here.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence

import gdb

from arenascope.sources.elf.elf_file import AT_PAGESZ, parse_auxv
from arenascope.sources.elf.environment import from_stack, parse_block
from arenascope.sources.elf.modules import loaded_regions
from arenascope.sources.live.procfiles import parse_regions
from arenascope.sources.memory import Memory
from arenascope.sources.target import Region

BLOCK = 2048
MAX_BYTES = 64 << 20
"""Larger than any /proc file that we read."""
ESCAPE, FLIPPED = 0x7D, 0x20


class StubFacts(NamedTuple):
    """What the stub's machine says about the process."""

    page_size: Optional[int]
    regions: Sequence[Region]
    environment: Optional[Mapping[str, str]]
    has_proc: bool
    """The mappings come from /proc/PID there, so that the pid is the process's real one."""


def ask_remote(connection: object, memory: Memory, pid: int) -> StubFacts:
    stub = _Stub(connection)
    raw = stub.auxv()
    auxv = parse_auxv(raw, memory.pointer_size, memory.mark)
    page = auxv.get(AT_PAGESZ)
    maps = stub.file(f"/proc/{pid}/maps")
    if maps:
        environ = stub.file(f"/proc/{pid}/environ")
        environment = parse_block(environ) if environ is not None else None
        return StubFacts(page, parse_regions(maps), environment, True)
    regions = loaded_regions(memory, auxv, page) if page else ()
    return StubFacts(page, regions, from_stack(memory.read, auxv, raw, memory.pointer_size, mark=memory.mark), False)


class _Stub:
    """Talks to the stub. Methods return None or nothing if this GDB (before 12) or this stub cannot answer."""

    def __init__(self, connection: object) -> None:
        self._packet = getattr(connection, "send_packet", None)

    def file(self, path: str) -> Optional[bytes]:
        """Contents of a file on the stub's machine."""
        opened = _number(self._send(f"vFile:open:{path.encode().hex()},0,0"))
        if opened is None:
            return None
        data = b""
        while len(data) < MAX_BYTES:
            reply = self._send(f"vFile:pread:{opened:x},{BLOCK:x},{len(data):x}")
            count = _number(reply)
            if not count:
                break
            data += _unescape(reply.partition(b";")[2])[:count]
        self._send(f"vFile:close:{opened:x}")
        return data if count == 0 else None

    def auxv(self) -> bytes:
        """The auxiliary vector."""
        data = b""
        while len(data) < BLOCK:
            reply = self._send(f"qXfer:auxv:read::{len(data):x},{BLOCK:x}")
            data += _unescape(reply[1:]) if reply[:1] in (b"m", b"l") else b""
            if reply[:1] != b"m":
                break
        return data

    def _send(self, packet: str) -> bytes:
        """Sends a packet and returns the reply; b"" if the stub does not know it, for which GDB returns None."""
        try:
            return (self._packet(packet) or b"") if self._packet else b""
        except gdb.error:
            return b""


def _number(reply: bytes) -> Optional[int]:
    """The number after F in a vFile reply; "F-1,errno" is an error."""
    if reply[:1] != b"F" or reply[1:2] == b"-":
        return None
    digits = reply[1:].partition(b";")[0].partition(b",")[0]
    return int(digits, 16)


def _unescape(data: bytes) -> bytes:
    """Decodes binary data of the remote protocol: 0x7d escapes a byte that has bit 5 flipped."""
    parts = data.split(bytes([ESCAPE]))
    return parts[0] + b"".join(bytes([part[0] ^ FLIPPED]) + part[1:] for part in parts[1:] if part)
