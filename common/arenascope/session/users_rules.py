"""Rules of the user's that say what pointers lead to: which file they are in, and what became of them."""

from __future__ import annotations

from typing import Sequence

from ..base.model import Statement


class UsersRules:
    """The rules for one image."""

    def __init__(self, file: str = "") -> None:
        """ "": the program's own file, as blocks/declared/rule_files.py finds it."""
        self.file = file
        self.read: Sequence[str] = []
        """The files by which blocks were named."""
        self.doubts: list[Statement] = []
        """Lines that could not be used, or that blocks contradict."""
