"""Text in blocks of which nothing tells whose they are: the engine looks for it."""

from __future__ import annotations

SHORTEST = 4
"""Letters: fewer are a number as well."""
PLAIN = bytes(range(32, 127)) + b"\t\n\r\x0b\x0c\x1b"
ENCODINGS = ("ASCII", "UTF-8", "UTF-16", "UTF-32")
