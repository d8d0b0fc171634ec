"""What a door's TypeSource answers, as data. Runs inside a debugger, too: it imports nothing of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional, Sequence


class Answers:
    """Types by number, each described once; `types` is a TypeSource."""

    def __init__(self, types: Any) -> None:
        self.types = types
        self.facts: dict[int, dict[str, Any]] = {}

    def describe(self, number: Optional[int]) -> None:
        """A type and all that its facts lead to."""
        left = [number]
        while left:
            each = left.pop()
            if each is None or each in self.facts:
                continue
            facts = self.types.facts(each)
            self.facts[each] = {
                **facts._asdict(),
                "fields": [field._asdict() for field in facts.fields],
                "arguments": [argument._asdict() for argument in facts.arguments],
                "enumerators": dict(facts.enumerators),
                "bits": [each._asdict() for each in facts.bits],
            }
            left += [facts.target, *(field.type for field in facts.fields), *(arg.type for arg in facts.arguments)]

    def structs(self) -> list[tuple[str, int]]:
        """Names and sizes of all."""
        return [(self.types.facts(each.type).name, each.size) for each in self.types.structs()]

    def all(self, addresses: Sequence[int], names: Sequence[str] = ()) -> dict[str, Any]:
        variables = {hex(at): each._asdict() for at, each in self.types.variables(addresses).items()}
        threads = [each._asdict() for each in self.types.thread_locals()]
        frames = [{**each._asdict(), "data": each.data and each.data.hex()} for each in self.types.locals()]
        by_name = {name: self.types.by_name(name) for name in names}
        for each in (*variables.values(), *threads, *frames):
            self.describe(each["type"])
        for number in by_name.values():
            self.describe(number)
        return {
            "variables": variables,
            "thread_locals": threads,
            "locals": frames,
            "by_name": by_name,
            "without": list(self.types.without()),
            "facts": {str(number): facts for number, facts in self.facts.items()},
        }


def write_answers(types: Any, folder: Path) -> None:
    """Answers what `task.json` asks."""
    task = json.loads((folder / "task.json").read_text())
    asked = Answers(types)
    answers = asked.all(task["addresses"], task["names"])
    if task["structs"]:
        answers["structs"] = asked.structs()
    (folder / "answers.json").write_text(json.dumps(answers))
