"""What a call into a process has written below a thread's stack, for tests that play its way back."""

from __future__ import annotations


class Written:
    """The prepared block; nothing is read from what lies below it."""

    def __init__(self, ready):
        self.ready = ready
        self.base, data = ready.block
        self.memory = bytearray(data)
        self.end = self.base + len(data)
        self.log = []

    def read(self, at, size):
        assert at >= self.base
        found = bytes(self.memory[at - self.base : at - self.base + size])
        assert len(found) == size
        return found
