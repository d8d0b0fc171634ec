"""What a remote stub (gdbserver, an emulator) reports besides memory and registers, through GDB's own connection.

Files are those of its machine: the mappings of the process are in its /proc, not in ours.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence

import gdb

from arenascope.sources.elf.elf_notes import AT_PAGESZ, parse_auxv
from arenascope.sources.elf.environment import from_stack, parse_block
from arenascope.sources.elf.modules import loaded_regions
from arenascope.sources.live.procfiles import parse_regions
from arenascope.sources.memory import Memory
from arenascope.sources.target import Region

BLOCK = 2048
MAX_BYTES = 64 << 20
"""More than any /proc file that is asked for."""
ESCAPE, FLIPPED = 0x7D, 0x20


class StubFacts(NamedTuple):
    """What the stub's machine says about the process."""

    page_size: Optional[int]
    regions: Sequence[Region]
    environment: Optional[Mapping[str, str]]
    has_proc: bool
    """The mappings come from /proc/PID, so that the number is the process's own."""


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
    """Answers None or nothing where this GDB (before 12) or this stub cannot say."""

    def __init__(self, connection: object) -> None:
        self._packet = getattr(connection, "send_packet", None)

    def file(self, path: str) -> Optional[bytes]:
        """The file as the stub has it."""
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
        """The reply; b"" to what the stub does not know, for which GDB has None."""
        try:
            return (self._packet(packet) or b"") if self._packet else b""
        except gdb.error:
            return b""


def _number(reply: bytes) -> Optional[int]:
    """What follows F in an answer to vFile, "F-1,errno" being a refusal."""
    if reply[:1] != b"F" or reply[1:2] == b"-":
        return None
    digits = reply[1:].partition(b";")[0].partition(b",")[0]
    return int(digits, 16)


def _unescape(data: bytes) -> bytes:
    """Binary data of the remote protocol: 0x7d, then the byte with one bit turned."""
    parts = data.split(bytes([ESCAPE]))
    return parts[0] + b"".join(bytes([part[0] ^ FLIPPED]) + part[1:] for part in parts[1:] if part)
