"""What `arenascope metrics --listen` serves, over HTTP: whoever connects, however many and slowly.

One thread waits on all connections, another looks. Scrapes that come meanwhile share its result: the process is
held once for all of them. A request that does not arrive in time, or that blocks another, is dropped unread.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from typing import Any, Callable, NamedTuple, Optional, Sequence

from ..base.errors import ArenascopeError
from ..base.internal_error import fault_line

MAX_CONNECTIONS = 64
"""Connections at a time; one more and the oldest whose request is not complete goes."""
SECONDS = 10
"""For a request to arrive, and for an answer to be taken."""
LONGEST = 8192
BROKEN = (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError)
PLAIN = "text/plain; charset=utf-8"

Families = Sequence[Any]
Encode = Callable[[Families, str], "tuple[bytes, str]"]
"""Families of metrics and a request's Accept: the text, and what kind it is of."""


class _Answer(NamedTuple):
    status: str
    body: bytes
    kind: str = PLAIN


def serve(host: str, port: int, look: Callable[[], Families], encode: Encode, say: Callable[[str], None]) -> None:
    """Until Ctrl-C; says where, with the port that 0 became."""
    where = f"[{host}]" if ":" in host else host
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address[:2], family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        why = str(getattr(error, "strerror", None) or error).partition(" (while")[0]
        raise ArenascopeError(f"cannot listen on {where}:{port}: {why}") from error
    with listening:
        say(f"serving http://{where}:{listening.getsockname()[1]}/metrics, Ctrl-C ends it\n")
        try:
            asyncio.run(_Server(look, encode).run(listening))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


class _Server:
    def __init__(self, look: Callable[[], Families], encode: Encode) -> None:
        self._look, self._encode = look, encode
        self._looking: Optional[asyncio.Future[Families]] = None
        self._open = 0
        self._asking: dict[asyncio.StreamWriter, None] = {}
        """Connections whose request is incomplete, the oldest first."""

    async def run(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(self._connected, sock=listening, limit=LONGEST)
        with contextlib.suppress(RuntimeError, ValueError):  # where this is not the main thread
            self._end_at_ctrl_c()
        await server.serve_forever()

    def _end_at_ctrl_c(self) -> None:
        """Whichever thread the kernel gives the signal to: asyncio's own way wakes nobody who waits for connections."""
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # an answer that waits in a buffer would have no end to its time
        writer.transport.set_write_buffer_limits(high=0)
        self._open += 1
        try:
            await self._write(writer, await self._answer(reader, writer))
            writer.close()
        except BROKEN:
            writer.transport.abort()
        finally:
            self._asking.pop(writer, None)
            self._open -= 1

    async def _write(self, writer: asyncio.StreamWriter, answer: _Answer) -> None:
        head = (
            f"HTTP/1.1 {answer.status}\r\nContent-Type: {answer.kind}\r\nContent-Length: {len(answer.body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + answer.body)
        await asyncio.wait_for(writer.drain(), SECONDS)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> _Answer:
        if self._open > MAX_CONNECTIONS:
            if not self._asking:
                return _Answer("503 Service Unavailable", b"too many scrapes at once\n")
            oldest = next(iter(self._asking))
            del self._asking[oldest]
            oldest.transport.abort()
        self._asking[writer] = None
        asked = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
        self._asking.pop(writer, None)
        first, *headers = asked.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        if rest.split(" ")[0].partition("?")[0] not in ("/", "/metrics"):
            return _Answer("404 Not Found", b"the figures are at /metrics\n")
        if method != "GET":
            return _Answer("405 Method Not Allowed", b"GET is all there is\n")
        accept = next((line[7:] for line in headers if line.lower().startswith("accept:")), "")
        try:
            body, kind = self._encode(await self._families(), accept.strip())
        except Exception as error:
            # the next scrape may succeed
            return _Answer("500 Internal Server Error", (fault_line(error, "metrics", "shell") + "\n").encode())
        return _Answer("200 OK", body, kind)

    async def _families(self) -> Families:
        """Processes that are being read, or read again."""
        if self._looking is None:
            self._looking = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(None, self._look))
            self._looking.add_done_callback(self._looked)
        return await asyncio.shield(self._looking)

    def _looked(self, _: object) -> None:
        self._looking = None
