"""Real programs under load, each a child of the tests and ended by its pid."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Optional, Sequence

from looks import needs
from subjects import Started
from waiting import await_that, states

START_SECONDS = 120
END_SECONDS = 5
CLIENTS = 8
Work = Callable[[socket.socket, int, int], None]
"""One round of a client: its connection, its number, and which round this is."""


class Running(Started):
    """A program, and the clients that keep it busy."""

    def __init__(self, folder: Path, words: Sequence[object], env: Optional[dict[str, str]] = None) -> None:
        needs(str(words[0]))
        self.folder = folder
        self.over = threading.Event()
        self.rounds = [0] * CLIENTS
        self.clients: list[threading.Thread] = []
        self.failures: list[BaseException] = []
        """Of its clients."""
        self.rests = threading.Event()
        self.turns = [threading.Lock() for _ in range(CLIENTS)]
        """Of each client, while it is in a round."""
        # its pid becomes that of the process to look at, where a server's worker is a child
        self.start_in_folder(words, env or {}, stdin=subprocess.DEVNULL)

    def alive(self) -> bool:
        return self.process.poll() is None and Path(f"/proc/{self.pid}").exists()

    def await_line(self) -> None:
        """On its standard output."""
        while self.line(START_SECONDS) != "ready":
            assert self.alive(), f"it ended: {self.complaints()}"

    def await_that(self, done: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + START_SECONDS
        while not done():
            assert not self.failures, self.failures
            assert self.alive(), f"it ended: {self.complaints()}"
            assert time.monotonic() < limit, f"{what}: {self.rounds} {self.complaints()}"
            time.sleep(0.05)

    def serve(
        self,
        path: Path,
        work: Work,
        ready: int,
        greet: Callable[[socket.socket], None] = bool,
        rounds: Optional[int] = None,
    ) -> None:
        """Clients on a socket, which go on behind our back once each has done so many rounds; where `rounds` are named,
        each does so many, the same each time, and stays connected."""
        self.await_that(lambda: _listens(path), "it does not listen")
        for number in range(CLIENTS):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(path))
            greet(connection)
            self.clients.append(
                threading.Thread(target=self._client, args=(connection, work, number, rounds), daemon=True)
            )
        for client in self.clients:
            client.start()
        self.await_that(lambda: min(self.rounds) >= ready, "its clients do not get on")

    def rest(self) -> None:
        """Its clients stay connected and ask for nothing more."""
        self.rests.set()
        for turn in self.turns:
            with turn:
                pass
        self.await_that(lambda: set(states(self.pid)) == {"S"}, "it goes on")

    def _client(self, connection: socket.socket, work: Work, number: int, rounds: Optional[int]) -> None:
        with connection:
            try:
                while not self.over.is_set() and self.rounds[number] != rounds:
                    with self.turns[number]:
                        if not self.rests.is_set():
                            work(connection, number, self.rounds[number])
                            self.rounds[number] += 1
                    if rounds is None:
                        time.sleep(0.01)
                self.over.wait()
            except (OSError, AssertionError) as failure:
                if not self.over.is_set():
                    self.failures.append(failure)

    def end(self) -> None:
        self.over.set()
        self.process.terminate()  # a server ends its workers then
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        super().end()
        for client in self.clients:
            client.join(10)
        # those that it started end after it: a browser's write into the folder until then
        with contextlib.suppress(AssertionError):
            await_that(lambda: not _has_processes(self.process.pid), END_SECONDS)


def _has_processes(session: int) -> bool:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # another test's process may have a name that is no UTF-8
            fields = stat.read_bytes().rpartition(b")")[2].split()
            if int(fields[3]) == session and fields[0] not in b"ZX":
                return True
    return False


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def receive(connection: socket.socket, size: int) -> bytes:
    found = connection.recv(size, socket.MSG_WAITALL)
    if len(found) < size:
        raise ConnectionError("the server hung up")
    return found


def receive_until(connection: socket.socket, end: bytes) -> bytes:
    found = b""
    while not found.endswith(end):
        found += receive(connection, 1)
    return found
