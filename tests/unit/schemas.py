"""Holds documents against docs/schema/arenascope.json, by as much of JSON Schema as that uses.

Any other word of JSON Schema is an error.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Callable, Iterator

FILE = Path(__file__).resolve().parents[2] / "docs" / "schema" / "arenascope.json"
TYPES: dict[str, Callable[[Any], bool]] = {
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
DESCRIBED = "a field of the command's record, from which `make docs` writes docs/schema/arenascope.json"
KNOWN = {
    "$ref",
    "allOf",
    "anyOf",
    "unevaluatedProperties",
    "description",
    "type",
    "enum",
    "pattern",
    "minimum",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "minItems",
}
MAX_ROWS = 2000
"""Of a longer list the first and the last: each row is made by the same line."""


@cache
def definitions() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(FILE.read_text())["$defs"]
    return known


def schema(name: str) -> dict[str, Any]:
    assert name in definitions(), f"what {name} answers is {DESCRIBED}"
    return followed({"$ref": f"#/$defs/{name}"})


def followed(rule: dict[str, Any]) -> dict[str, Any]:
    """The schema that a reference leads to."""
    while "$ref" in rule:
        beginning, place, *path = rule["$ref"].split("/")
        assert (beginning, place) == ("#", "$defs")
        rule = definitions()
        for name in path:
            rule = rule[name]
    return rule


def wrong(value: Any, rule: dict[str, Any], where: str = "") -> Iterator[str]:
    """Every place where the value is not as the schema says."""
    rule = followed(rule)
    assert set(rule) <= KNOWN, f"{set(rule) - KNOWN} is not known here"
    for each in rule.get("allOf", ()):
        yield from wrong(value, each, where)
    if "anyOf" in rule:
        found = [list(wrong(value, each, where)) for each in rule["anyOf"]]
        yield from min(found, key=lambda errors: (bool(errors), -len(errors)))
    if "enum" in rule and not any(value == each and type(value) is type(each) for each in rule["enum"]):
        yield f"{where}: {value!r} is none of {rule['enum']}"
    kinds = rule.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(TYPES[kind](value) for kind in kinds):
        yield f"{where}: {value!r} is no {' or '.join(kinds)}"
    elif isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        yield f"{where}: {value!r} is not like {rule['pattern']}"
    elif TYPES["number"](value) and value < rule.get("minimum", value):
        yield f"{where}: {value!r} is less than {rule['minimum']}"
    elif isinstance(value, list):
        yield from _wrong_rows(value, rule, where)
    elif isinstance(value, dict):
        yield from _wrong_keys(value, rule, where)


def _wrong_rows(value: list[Any], rule: dict[str, Any], where: str) -> Iterator[str]:
    first = rule.get("prefixItems", [])
    if len(value) < rule.get("minItems", 0) or (rule.get("items") is False and len(value) > len(first)):
        yield f"{where}: {len(value)} items"
        return
    for index, (each, each_rule) in enumerate(zip(value, first)):
        yield from wrong(each, each_rule, f"{where}[{index}]")
    rest = value[len(first) :]
    if len(rest) > MAX_ROWS:
        rest = rest[: MAX_ROWS // 2] + rest[-MAX_ROWS // 2 :]
    if isinstance(rule.get("items"), dict):
        for index, each in enumerate(rest):
            yield from wrong(each, rule["items"], f"{where}[{index}]")


def _wrong_keys(value: dict[str, Any], rule: dict[str, Any], where: str) -> Iterator[str]:
    others = rule.get("additionalProperties", rule.get("unevaluatedProperties", True))
    known = dict(rule.get("properties", {}))
    for each in rule.get("allOf", ()):
        # checked there
        known.update({key: {} for key in followed(each)["properties"].keys() - known.keys()})
    for key in rule.get("required", ()):
        if key not in value:
            yield f"{where}.{key} is missing"
    for key, each in value.items():
        if key in known:
            yield from wrong(each, known[key], f"{where}.{key}")
        elif others is False:
            yield f"{where}.{key} is described nowhere"
        elif isinstance(others, dict):
            yield from wrong(each, others, f"{where}.{key}")


def contract() -> Iterator[str]:
    """What contract.txt lists: "report.parts[] bytes", "owner.held_by kind=tls", "ids trim-once", "errors no-heap"."""
    for line in Path(__file__).with_name("contract.txt").read_text().splitlines():
        place, _, keys = line.partition(": ")
        if place[0] == "#":
            continue
        for word in keys.split():
            key, _, values = word.partition("=")
            yield f"{place} {key}"
            yield from (f"{place} {key}={value}" for value in values.split("|") if value)


def valid(document: dict[str, Any]) -> dict[str, Any]:
    """The document, checked against the schema of its command, and its texts against their records."""
    name = "failed" if "error" in document else document["command"]
    errors = list(wrong(document, schema(name), name))
    assert not errors, "\n".join([*errors[:20], f"({DESCRIBED})"])
    assert document["complete"] is (not document["problems"])
    assert [each["text"] for each in document["problem_records"]] == document["problems"]
    return document


def problem_ids(document: dict[str, Any]) -> list[str]:
    return [each["id"] for each in document["problem_records"]]


def valid_snapshot(document: dict[str, Any]) -> dict[str, Any]:
    errors = list(wrong(document, schema("snapshot-file"), "snapshot"))
    assert not errors, "\n".join([*errors[:20], f"({DESCRIBED})"])
    return document
