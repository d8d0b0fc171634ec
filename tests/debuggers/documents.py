"""What doors say of one image: documents without what differs by nature."""

from __future__ import annotations

import json
import re
from typing import Any, Sequence

from looks import Door, Image, opened
from schemas import valid
from shell_door import SHELL

OF_TYPES = ("types", "containers", "owners", "leaks", "waste")
VALUED = 3
"""Types of which the objects' values are asked for."""
Documents = dict[str, dict[str, Any]]


def ask_door(door: Door, image: Image, *commands: str, declared: bool = True) -> list[dict[str, Any]]:
    """The documents of these commands; with debug information, which the shell alone has to be told."""
    words = " --json" + (" --declared" if declared else " --no-declared") * (door is SHELL)
    # leaks ends with 1 where something is lost
    return [valid(json.loads(each.text)) for each in opened(door).run(image, [each + words for each in commands])]


def documents(door: Door, image: Image, valued: Sequence[str] = ()) -> Documents:
    """By the command: all rows of those that know types, and the values of these types' objects."""
    asked = [f"{command} --limit 0" for command in OF_TYPES]
    asked += [f"types {each} --values --with-values" for each in valued]
    return dict(zip(asked, map(common, ask_door(door, image, *asked))))


def common(document: dict[str, Any]) -> dict[str, Any]:
    """What a document says, but for what a door has its own word for."""
    document = {key: value for key, value in document.items() if key not in ("door", "held_seconds")}
    (document["glibc"] or {}).pop("located_by", None)
    for advice in document.get("advice", ()):
        del advice["how"]  # as it is typed there
    return document


def valued_types(door: Door, image: Image) -> list[str]:
    """The largest types of which blocks certainly are objects, and whose name needs no quotes."""
    (types,) = ask_door(door, image, "types --limit 0")
    rows = [each for each in types["types"] if each["kind"] == "declared" and each["certain"]]
    return [each["type"] for each in rows if re.fullmatch(r"[\w:]+", each["type"])][:VALUED]
