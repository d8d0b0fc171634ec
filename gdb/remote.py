"""Files of a remote target (gdbserver), through GDB's own connection: its mappings are in its /proc, not in ours."""

from __future__ import annotations

from typing import Optional

import gdb

BLOCK = 4096
MOST = 64 << 20
"""More than any /proc file that is asked for."""
ESCAPE, FLIPPED = 0x7D, 0x20


def read_remote_file(connection: object, path: str) -> Optional[bytes]:
    """The file as the stub has it; None where this GDB (before 12) or this stub cannot say."""
    send = getattr(connection, "send_packet", None)
    if send is None:
        return None
    try:
        opened = _number(send(f"vFile:open:{path.encode().hex()},0,0"))
        if opened is None:
            return None
        try:
            return _read_all(send, opened)
        finally:
            send(f"vFile:close:{opened:x}")
    except gdb.error:
        return None


def _read_all(send, descriptor: int) -> Optional[bytes]:
    found = b""
    while len(found) < MOST:
        reply = send(f"vFile:pread:{descriptor:x},{BLOCK:x},{len(found):x}")
        count = _number(reply)
        if count is None:
            return None
        if count == 0:
            return found
        found += _unescape(reply.partition(b";")[2])[:count]
    return None


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
