"""arenascope mcp, as the SDK's own client has it over standard input and output, on processes and cores for real."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

import pytest
from applying import lives_on
from lifetimes import dies_with_us
from looks import ROOT, plain_environment
from schemas import valid
from subjects import Subject
from test_redaction import Secret, leaked_in, libraries_of, secrets_of

from arenascope.cli.json_schemas import schemas

COMMAND = (sys.executable, str(ROOT / "bin" / "arenascope"), "mcp")
BARE = (sys.executable, "-I", "-S", "-c")
START = f"import sys; sys.path.insert(0, {str(ROOT / 'common')!r}); from arenascope.__main__ import run; run()"
WORD = 8
NARROWS = ("free", "used", "quick", "summary", "exact", "values")
"""With these less is shown, or something else."""
Call = tuple[str, Mapping[str, object]]
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
needs_sdk = pytest.mark.full


def spoken(words: Sequence[object], calls: Sequence[Call] = (), mode: str = "auto") -> tuple[list[Any], list[Any]]:
    """The tools, and what became of each call."""
    mcp: Any = pytest.importorskip("mcp", reason="the SDK for MCP is not installed")
    server = mcp.StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *map(str, words)])
    found: list[Any] = []

    async def speak() -> list[Any]:
        async with mcp.Client(server, mode=mode) as client:
            for name, given in calls:
                try:
                    found.append(await client.call_tool(name, given))
                except mcp.MCPError as error:
                    found.append(error)
            tools: list[Any] = (await client.list_tools()).tools
            return tools

    return import_module("anyio").run(speak), found


def asked(tool: Any, everything: bool, subject: str, *addresses: int) -> Call:
    """With no option, or with as many as go together."""
    schema = tool.input_schema["properties"]
    given: dict[str, object] = {"subject": subject}
    if "address" in schema:
        each = [hex(address) for address in addresses]
        given["address"] = each if schema["address"]["type"] == "array" else each[0]
    for name in schema if everything else ():
        if schema[name].get("type") == "boolean" and name not in NARROWS:
            given[name] = True
        elif name in ("limit", "words"):
            given[name] = 200
    return tool.name, given


def runs_on(subject: Subject) -> bool:
    told = dict(line.split(":\t", 1) for line in Path(f"/proc/{subject.pid}/status").read_text().splitlines())
    return told["State"][0] in "RS" and told["TracerPid"] == "0"


def numbers(text: str, secrets: Sequence[Secret]) -> set[str]:
    """Kinds of which a word stands there in digits."""
    return {
        each.kind
        for each in secrets
        for piece in each.pieces(WORD)
        for number in [int.from_bytes(piece[:WORD], "little")]
        if len(piece) == WORD and (f"{number:x}" in text or str(number) in text)
    }


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    with Subject("secrets") as subject:
        yield subject


@needs_sdk
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_each_tool_answers_by_its_schema(subject: Subject, mode: str) -> None:
    core = subject.gcore()
    held = next(each.address for each in secrets_of(subject) if each.kind == "used-large")
    tools, _ = spoken([subject.pid, core])
    images = [str(core), str(subject.pid)][: 2 if mode == "auto" else 1]
    calls = [asked(tool, mode == "auto", image, held) for image in images for tool in tools]
    _, answers = spoken([subject.pid, core], calls, mode)
    assert len(answers) == len(images) * len(tools) >= len(images) * 20
    for (name, given), answer in zip(calls, answers):
        assert not answer.is_error, (name, given, answer.content)
        document = answer.structured_content
        assert json.loads(answer.content[0].text) == document
        assert valid(document) == document, name
        assert (document["command"], document["subject"]) == (name, given["subject"])
        assert document["target"]["kind"] == ("core" if given["subject"] == str(core) else "live")
    assert all(each.annotations.read_only_hint and not each.annotations.destructive_hint for each in tools)
    assert all(each.output_schema == schemas()[each.name] for each in tools)
    assert runs_on(subject)


@needs_sdk
def test_what_was_not_named_is_refused(subject: Subject, tmp_path: Path) -> None:
    core = str(subject.gcore())
    page = tmp_path / "page.html"
    me = {"subject": str(subject.pid)}
    refused: list[Call] = [
        ("report", {"subject": core}),
        ("report", {"subject": "1"}),
        ("report", {}),
        ("report", {**me, "html": str(page)}),
        ("owners", {**me, "pprof": str(page)}),
        ("report", {**me, "with_values": True}),
        ("trim", {**me, "apply": True}),
        ("arenas", {**me, "limit": 0}),
        ("arenas", {**me, "limit": "3"}),
        ("chunk", {**me, "address": ["--words=4"]}),
        ("types", {**me, "min": f"4096 --rules={page}"}),
    ]
    unknown: list[Call] = [("save", me), ("trim_apply", me), ("help", {})]
    _, answers = spoken([subject.pid], [*refused, *unknown, ("arenas", {**me, "arena": None}), ("arenas", me)])
    for call, answer in zip(refused, answers):
        assert answer.is_error, call
        assert [each["id"] for each in answer.structured_content["problem_records"]] == ["usage"], call
        assert "\n" not in answer.content[0].text
    assert [each.error.code for each in answers[len(refused) : -2]] == [-32602] * len(unknown)
    assert (answers[-2].is_error, answers[-1].is_error) == (True, False)
    assert not page.exists()


@needs_sdk
@pytest.mark.parametrize("kind", ["live", "core"])
def test_without_values_nothing_of_a_block_is_told(subject: Subject, kind: str) -> None:
    secrets, libraries = secrets_of(subject), libraries_of(subject)
    image = str(subject.pid if kind == "live" else subject.gcore())
    addresses = [each.address for each in secrets if each.address]
    tools, _ = spoken([image])
    calls = [
        asked(tool, True, image, *addresses[at : at + 16])
        for tool in tools
        for at in range(0, len(addresses) if "address" in tool.input_schema["properties"] else 1, 16)
    ]
    _, answers = spoken([image], calls)
    for call, answer in zip(calls, answers):
        text = answer.content[0].text
        assert not answer.is_error, (call, text)
        assert leaked_in(text.encode(), secrets, WORD, libraries) == set(), call
        assert numbers(text, secrets) == set(), call
    of_blocks = [each for each in calls if each[0] == "chunk"]
    _, told = spoken([image, "--with-values"], of_blocks)
    assert len({kind for each in told for kind in numbers(each.content[0].text, secrets)}) > 10


@needs_sdk
def test_apply_only_where_it_is_allowed() -> None:
    with Subject("hoard", "4", "12") as subject:
        core, me = subject.gcore(), {"subject": str(subject.pid)}
        tools, (foretold, refused) = spoken([subject.pid], [("trim", me), ("trim_apply", me)])
        assert not any(each.name == "trim_apply" for each in tools)
        assert refused.error.code == -32602
        there = foretold.structured_content["totals"]["resident_bytes"]
        assert there > 16 << 20
        tools, (plain, of_core, done, after) = spoken(
            [subject.pid, core, "--allow-apply"],
            [("trim", me), ("trim_apply", {"subject": str(core)}), ("trim_apply", me), ("trim", me)],
        )
        assert plain.structured_content["totals"]["resident_bytes"] == there
        assert of_core.is_error
        assert done.structured_content["applied"]["released_bytes"] == pytest.approx(there, rel=0.01)
        assert valid(done.structured_content)
        assert after.structured_content["totals"]["resident_bytes"] == 0
        hints = {each.name: each.annotations for each in tools if each.name.startswith("trim")}
        assert hints["trim"].read_only_hint
        assert not hints["trim_apply"].read_only_hint
        assert hints["trim_apply"].destructive_hint
        assert runs_on(subject)
        lives_on(subject)


class Raw:
    """The server, line by line."""

    def __init__(self, *words: object) -> None:
        pytest.importorskip("mcp", reason="the SDK for MCP is not installed")
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=plain_environment(),
            preexec_fn=dies_with_us(),
        )
        self.say(id=0, method="initialize", params=HELLO)
        assert self.heard()["result"]["serverInfo"]["name"] == "arenascope"
        self.say(method="notifications/initialized")

    def say(self, **message: object) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def say_again(self, subject: Subject) -> None:
        """It is at work, and hears us."""
        given = {"subject": str(subject.pid), "again": 60}
        self.say(id=1, method="tools/call", params={"name": "report", "arguments": given})
        self.say(id=2, method="ping")
        assert self.heard()["id"] == 2

    def heard(self) -> Any:
        return json.loads(self.process.stdout.readline())


@needs_sdk
def test_the_server_ends_with_its_input_and_lets_the_process_go(subject: Subject) -> None:
    server = Raw(subject.pid)
    """A look of a minute is not waited for."""
    server.say_again(subject)
    _, said = server.process.communicate(timeout=60)
    assert (server.process.returncode, said) == (0, "")
    assert runs_on(subject)


@needs_sdk
@pytest.mark.parametrize(("sign", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_signal_ends_it_at_once(subject: Subject, sign: signal.Signals, status: int) -> None:
    """Its input is open, and it may be at work."""
    server = Raw(subject.pid)
    server.say_again(subject)
    server.process.send_signal(sign)
    assert server.process.wait(60) == status
    assert runs_on(subject)


def test_without_the_sdk_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "a.core").write_bytes(b"")
    line = [*BARE, START, "mcp", str(tmp_path / "a.core")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env=plain_environment())
    assert (done.returncode, done.stdout) == (2, "")
    assert "'arenascope[mcp]'" in done.stderr
    assert done.stderr.count("\n") == 1
