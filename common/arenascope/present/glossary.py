"""The words on the screens, for `heap help words`: glossary.md has them, a heading and a paragraph each."""

from __future__ import annotations

import pkgutil
import re
import textwrap
from functools import lru_cache
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from .shared_text.lines_and_tables import HELP_WIDTH

TOPIC = "words"
"""The word after `help` that shows all of them."""
INDENT = " " * 4


class GlossaryWord(NamedTuple):
    """A word and its other names; it is found by any name, and by any JSON key."""

    names: tuple[str, ...]
    meaning: str
    keys: Mapping[str, Sequence[str]]
    """Its keys in JSON documents, by name."""

    @property
    def title(self) -> str:
        first, *others = self.names
        return f"{first} ({', '.join(others)})" if others else first

    @property
    def explained(self) -> str:
        """The meaning, and the JSON keys."""
        in_json = (f' In JSON "{name}" is {listed(keys)}.' for name, keys in self.keys.items())
        return self.meaning + "".join(in_json)


IN_JSON: Mapping[str, tuple[str, ...]] = {
    "in use": ("live", "live_bytes", "used_bytes"),
    "stranded": ("scraps", "scraps_bytes"),
    "trim gives": ("returnable", "returnable_bytes"),
    "tops": ("thread_tops", "thread_tops_bytes"),
    "would return": ("returns_bytes", "releases_bytes", "release_bytes"),
    "alone": ("owners[].retained_bytes",),
    "shared with": ("leading",),
    "possibly lost": ("possible_bytes",),
    "no plain pointer": ("unknown_bytes",),
    "asked for": ("requested",),
    "stood still": ("held_seconds",),
}
"""Keys in JSON documents that differ from the word on screens."""
ENTRY = re.compile(r"^## (?P<name>.+)\n\n(?:\*Also (?P<others>[^*]+)\.\* )?(?P<meaning>.+)$", re.MULTILINE)


@lru_cache(None)
def words() -> Sequence[GlossaryWord]:
    """The words of glossary.md, in its order."""
    page = (pkgutil.get_data(__package__, "glossary.md") or b"").decode()
    found = []
    for each in ENTRY.finditer(page):
        names = (each["name"], *(each["others"].split(", ") if each["others"] else ()))
        found.append(GlossaryWord(names, each["meaning"], {name: IN_JSON[name] for name in names if name in IN_JSON}))
    return found


def listed(keys: Sequence[str]) -> str:
    return ", ".join(f"`{each}`" for each in keys)


def word_of_key(key: str) -> Optional[str]:
    """The word on screens for a JSON key, if it differs."""
    return next((word for word, keys in IN_JSON.items() if key in keys), None)


def find_word(name: str) -> Optional[GlossaryWord]:
    """Finds a word by any of its names, in upper or lower case."""
    wanted = " ".join(name.lower().split())
    called = ((word, [*word.names, *(key for keys in word.keys.values() for key in keys)]) for word in words())
    return next((word for word, names in called if wanted in (each.lower() for each in names)), None)


def entry(word: GlossaryWord, prefix: str) -> Iterator[str]:
    yield word.title
    meaning = word.explained.replace("`heap ", f"`{prefix} ")
    yield from textwrap.wrap(
        meaning, HELP_WIDTH, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False
    )


def words_text(told: Sequence[GlossaryWord], prefix: str) -> str:
    """The words as a screen shows them. `prefix`: typed before commands."""
    return "\n".join(line for word in told for line in entry(word, prefix)) + "\n"
