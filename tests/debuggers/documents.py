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


def documents(door: Door, image: Image, valued: Sequence[str] = ()) -> Documents:
    """By the command: all rows of those that know types, and the values of these types' objects."""
    asked = [f"{command} --limit 0" for command in OF_TYPES]
    asked += [f"types {each} --values --with-values" for each in valued]
    own = " --declared" if door is SHELL else ""
    said = opened(door).run(image, [f"{each} --json{own}" for each in asked])
    return {each: common(outcome.text) for each, outcome in zip(asked, said)}


def common(text: str) -> dict[str, Any]:
    """What a document says, but for what a door has its own word for."""
    document = {key: value for key, value in valid(json.loads(text)).items() if key not in ("door", "held_seconds")}
    (document["glibc"] or {}).pop("located_by", None)
    for advice in document.get("advice", ()):
        del advice["how"]  # as it is typed there
    return document


def valued_types(door: Door, image: Image) -> list[str]:
    """The largest types of which blocks certainly are objects, and whose name needs no quotes."""
    (said,) = opened(door).run(image, [f"types --json --limit 0{' --declared' if door is SHELL else ''}"])
    rows = [each for each in said.json()["types"] if each["kind"] == "declared" and each["certain"]]
    return [each["type"] for each in rows if re.fullmatch(r"[\w:]+", each["type"])][:VALUED]
