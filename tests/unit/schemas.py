"""Holds documents against docs/schema/arenascope.json, by a library that knows all of JSON Schema."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Iterator

import jsonschema_rs

FILE = Path(__file__).resolve().parents[2] / "docs" / "schema" / "arenascope.json"
DESCRIBED = "a field of the command's record, from which `make docs` writes docs/schema/arenascope.json"


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


@cache
def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema(name), "$defs": definitions()})


def wrong(document: Any, name: str) -> Iterator[str]:
    """Every place where the document is not as its schema says."""
    for error in validator(name).iter_errors(document):
        yield f"{'.'.join(map(str, [name, *error.instance_path]))}: {error.message:.300}"


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


def checked(document: dict[str, Any], name: str) -> dict[str, Any]:
    errors = list(wrong(document, name))
    assert not errors, "\n".join([*errors[:20], f"({DESCRIBED})"])
    return document


def valid(document: dict[str, Any]) -> dict[str, Any]:
    """The document, checked against the schema of its command, and its texts against their records."""
    checked(document, "failed" if "error" in document else document["command"])
    assert document["complete"] is (not document["problems"])
    assert [each["text"] for each in document["problem_records"]] == document["problems"]
    return document


def valid_snapshot(document: dict[str, Any]) -> dict[str, Any]:
    return checked(document, "snapshot-file")


def problem_ids(document: dict[str, Any]) -> list[str]:
    return [each["id"] for each in document["problem_records"]]
