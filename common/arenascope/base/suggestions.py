"""What a mistyped word was probably meant to be: a command, an option, a column, a process."""

from __future__ import annotations

from typing import Iterable, Optional

MOST = 3
"""So many are offered."""


def like(word: str, known: Iterable[str]) -> list[str]:
    """Those most like it, the most like first; case and dashes in front do not count."""
    from difflib import get_close_matches  # for what was mistyped alone

    by_plain = {_plain(each): each for each in known}
    return [by_plain[each] for each in get_close_matches(_plain(word), by_plain, MOST)]


def with_suggestion(word: str, known: Iterable[str], hint: Optional[str] = None) -> Optional[str]:
    """The hint, after what was probably meant; that alone, or none, where there is no hint."""
    found = like(word, known)
    meant = [f"did you mean {' or '.join(found)}?"] if found else []
    return " ".join([*meant, *([hint] if hint else [])]) or None


def _plain(word: str) -> str:
    return word.lstrip("-").lower()
