"""docs/schema/arenascope.json describes every document: of each command, and the snapshot file.

contract.txt has the keys, values and ids that scripts may rely on.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Iterator

import jsonschema_rs
import pytest
from fake_door import run_json
from heap_mixtures import everything
from heapbuilder import HeapImage
from schemas import FILE, contract, definitions, followed, schema, valid_snapshot, wrong

from arenascope.cli import main as cli
from arenascope.cli.json_schemas import COMMANDS
from arenascope.cli.main import INSTEAD
from arenascope.commands import params, pins, trim, version
from arenascope.commands.framework.api_subject import Subject
from arenascope.commands.framework.find_command import COMMAND_NAMES
from arenascope.present.json_documents.record import Record
from arenascope.present.screens import type_lines, verdict
from arenascope.present.screens.advice_sentences import ADVICE
from arenascope.present.shared_text import problem_sentences
from arenascope.present.shared_text.problem_sentences import SENTENCES

NAMES = {*COMMAND_NAMES, "top", "failed", "snapshot-file"}
# with the options that bring keys of their own
WORDS = {
    "trim": ["--ranges"],
    "pins": ["--ranges", "--own"],
    "chunks": ["--summary"],
    "map": ["--cells", "4"],
    "chunk": ["0x1000", "0x2000"],
    "refs": ["0x1000"],
    "owner": ["0x1000"],
}


WENT: set[str] = set()
"""Keys ("report.held.owners[] tid"), values ("owner.held_by kind=tls") and ids ("ids trim-once") of contract.txt that
are no more."""
TABLES_OF_IDS = (
    *(params.NOTES, ADVICE, version.WORDS, pins.NOTES, trim.KEPT, type_lines.NOTES),
    *(verdict.JUDGEMENTS, verdict.CAUSES, problem_sentences.BREACHES, problem_sentences.WORDS, SENTENCES),
)


def test_each_command_has_one() -> None:
    whole = json.loads(FILE.read_text())
    jsonschema_rs.meta.validate(whole)
    assert {each["$ref"] for each in whole["anyOf"]} == {f"#/$defs/{name}" for name in NAMES}, "`make docs`"
    for name in COMMAND_NAMES:
        assert schema(name)["properties"]["command"]["enum"] == [name]


def test_the_command_prints_each(capsys: pytest.CaptureFixture[str]) -> None:
    """However it was installed; of a command also behind its name. What is printed needs no other file."""
    (asked,) = (each for each in INSTEAD.arguments if each.names == ("--schema",))
    assert {*asked.choices} == NAMES
    for words in (["top", "--schema"], *(["--schema", name] for name in sorted(NAMES))):
        assert cli.main(words) == 0
        name = next(word for word in words if word[:1] != "-")
        printed = json.loads(capsys.readouterr().out)
        assert printed.pop("$schema").endswith("2020-12/schema")
        own = printed.pop("$defs")
        assert printed == schema(name)
        assert own == {each: definitions()[each] for each in own}
        assert {each.split("/")[2] for each in references([printed, own])} == own.keys()


def references(rule: object) -> Iterator[str]:
    if isinstance(rule, dict):
        yield from [rule["$ref"]] if isinstance(rule.get("$ref"), str) else []
        rule = list(rule.values())
    for each in rule if isinstance(rule, list) else ():
        yield from references(each)


def described(rule: dict[str, Any], place: str) -> Iterator[str]:
    """The same of a schema of today's."""
    rule = followed(rule)
    for each in (*rule.get("allOf", ()), *rule.get("anyOf", ()), *rule.get("prefixItems", ())):
        yield from described(each, place)
    for key, inner in rule.get("properties", {}).items():
        yield f"{place} {key}"
        yield from (f"{place} {key}={value}" for value in followed(inner).get("enum", ()))
        yield from described(inner, f"{place}.{key}")
    for inside, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(rule.get(inside), dict):
            yield from described(rule[inside], place + mark)


def test_no_key_and_no_id_is_lost() -> None:
    """But for what is in WENT."""
    found = {each for name in NAMES for each in described(schema(name), name)}
    # whatever each command's document has
    found |= {"*" + each[len("report") :] for each in found if each.startswith("report")}
    found |= {f"ids {each}" for table in TABLES_OF_IDS for each in table}
    known = {each for each in contract() if not each.startswith("errors ")}
    assert len(known) > 1900
    assert known - found == WENT


@pytest.mark.parametrize(
    "command", [name for name in COMMAND_NAMES if name not in ("snapshot", "diff", "trend", "save")]
)
def test_with_all_options_and_before_the_first_malloc(command: str) -> None:
    target = everything("2.36-64").target()
    run_json(target, command)
    run_json(target, command, *WORDS.get(command, []))
    run_json(HeapImage("2.36-64", heap=False).target(), command)


def test_snapshot_and_diff(tmp_path: Path) -> None:
    target = everything("2.36-64").target()
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    run_json(target, "snapshot", first)
    run_json(target, "snapshot", second, "--sizes")
    for path in (first, second):
        valid_snapshot(json.loads(Path(path).read_text()))
    assert run_json(target, "diff", first, second)["judgement"]["id"] == "unknown"  # how much of a core was resident


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"surplus": 1}, "surplus"),
        ({"problems": None}, "problems"),
        ({"schema": 2}, "schema"),
        ({"heaps": [{"arena": 0}]}, "address"),
        ({"target": {"kind": "core", "pid": "7", "pointer_bytes": 8, "page_bytes": 4096}}, "pid"),
        ({"glibc": {"version": None, "located_by": "scan", "main_arena": "7f00"}}, "main_arena"),
    ],
)
def test_what_is_wrong_is_noticed(change: dict[str, Any], said: str) -> None:
    document = run_json(everything("2.36-64").target(), "heaps")
    assert not list(wrong(document, "heaps"))
    assert said in next(wrong({**document, **change}, "heaps"))


def test_everything_that_is_concluded_has_an_id() -> None:
    document = run_json(everything("2.36-64").target(), "params")
    assert all((row["note"] is None) is (row["note_record"] is None) for row in document["params"])


def test_a_program_gets_the_record_that_the_schema_is_made_of() -> None:
    given = {name: said for name, said in Subject.__annotations__.items() if name in COMMANDS}
    assert given == {name: f"_Asking[{COMMANDS[name].__name__}]" for name in given}
    # what writes files is asked for by ask()
    assert COMMANDS.keys() - given.keys() == {"snapshot", "save", "diff", "trend", "top"}


class Part(Record):
    """Of something."""

    name: Annotated[str, "Its name"]
    resident_bytes: Annotated[int, "In memory"]
    more: Annotated[str, "With an option"] = ""


class Said(Part, first=True):
    """With what comes before."""

    for_: Annotated[str, "What speaks for it"]


def test_a_record_of_a_figure_has_what_bears_the_same_name() -> None:
    figure = SimpleNamespace(name="top", resident=3, more="left out")
    assert Part.of(figure).to_dict() == {"name": "top", "resident_bytes": 3}
    assert list(Said.of(figure, for_="all", more="asked").to_dict().items()) == [
        ("for", "all"),
        ("name", "top"),
        ("resident_bytes", 3),
        ("more", "asked"),
    ]
    with pytest.raises(AttributeError):
        Part.of(SimpleNamespace(name="top"))
    with pytest.raises(AssertionError):
        Part.of(figure, bytes=3)
