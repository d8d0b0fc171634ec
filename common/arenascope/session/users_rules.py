"""The user's rules for what pointers lead to: the file that has them, and what came of them."""

from __future__ import annotations

from typing import Sequence

from ..base.model import Statement


class UsersRules:
    """The rules for one image."""

    def __init__(self, file: str = "") -> None:
        """An empty `file` means the program's own one, as blocks/declared/rules.py finds it."""
        self.file = file
        self.read: Sequence[str] = []
        """The files by which blocks were named."""
        self.doubts: list[Statement] = []
        """Lines that could not be used, or that blocks contradict."""
