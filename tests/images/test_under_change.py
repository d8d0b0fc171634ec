"""Looks at a program that allocates, frees and maps as fast as it can, and malloc_info, called in the same hold."""

from __future__ import annotations

import json
import struct
import xml.etree.ElementTree as ElementTree

import pytest
from marks import full_after
from platforms import HOST
from schemas import valid
from subjects import Subject
from waiting import await_that, states

from arenascope.base.errors import ArenascopeError
from arenascope.cli import several_subjects, shell
from arenascope.cli.shell_calls import ShellController
from arenascope.commands.framework.command import FunctionCall
from arenascope.commands.framework.find_command import find_command
from arenascope.session.session import Session
from arenascope.sources.live import process_hold
from arenascope.sources.live.live_target import ProcessTarget
from arenascope.sources.live.process import ProcessImage

pytestmark = pytest.mark.skipif(
    HOST.machine not in ("x86_64", "aarch64"), reason="the shell calls into x86-64 and aarch64 processes alone"
)

FEW, MANY, WITH_TRUTH = 10, 200, 100
LOOKS = {
    "lists": ("info --json", "arenas --json", "trim --json", "report --json --quick"),
    "sweeps": ("chunks --summary --json", "check --json", "map --json", "pins --json"),
    "copies": ("save CORE --json", "types --quick --json", "leaks --json", "report --types --json"),
}
CALL_SECONDS = 20.0
WITHOUT_LOCK = "tcache-"
"""How problems begin that a call in progress explains although it has no lock: a thread's cache is its own."""


class Truth:
    """What malloc_info says, called once a look has read what it wanted, before the process is let go."""

    def __init__(self, subject):
        self.subject, self.notes = subject, {name: int(at, 16) for name, at in addresses(subject).items()}
        self.text = None
        self.refused = []

    def ask(self, freeze):
        self.text = None
        image = ProcessImage(self.subject.pid)
        target = ProcessTarget(image, (), True)
        target.look(freeze)
        session = Session(target)
        if any(header.mutex for header in session.headers):
            return
        controller = ShellController(target, freeze)
        base = session.located.libc.base
        function = controller._now.exported("malloc_info", base)
        try:
            controller.call(FunctionCall(function.value, [0, self.notes["stream"]]), CALL_SECONDS, lambda name: False)
        except ArenascopeError as error:
            self.refused.append(str(error))
            return
        (written,) = struct.unpack("<Q", image.read(self.notes["written"], 8))
        self.text = image.read(self.notes["info"], written).decode()
        with open(f"/proc/{self.subject.pid}/mem", "r+b", 0) as memory:
            memory.seek(self.notes["written"])
            memory.write(bytes(8))


def addresses(subject):
    return {name: subject.truth["notes"][name] for name in ("stream", "info", "written")}


@pytest.fixture
def truth_of(monkeypatch):
    """Asked in every hold of this process."""
    found, release = [], process_hold.Freeze.release

    def asking(self):
        if found and self._guard and self._pid == found[0].subject.pid:
            found[0].ask(self)
        return release(self)

    monkeypatch.setattr(process_hold.Freeze, "release", asking)
    return lambda subject: found.insert(0, Truth(subject)) or found[0]


def answer(subject, words):
    name, *rest = words.split()
    options = find_command(name).parser("arenascope").parse_args(rest)
    seen = several_subjects.look(
        several_subjects.SubjectRequest(str(subject), name, options, shell.How(declared=False))
    )
    assert seen.error is None, (words, seen.error)
    return valid(json.loads(seen.text))


def totals(element):
    return {each.get("type"): (int(each.get("count")), int(each.get("size"))) for each in element.findall("total")}


def agrees(document, text):
    """Every figure of the document that malloc_info has, too; how many there were."""
    heaps = ElementTree.fromstring(text).findall("heap")
    compared = 0
    if "xml" in document:
        assert document["xml"] == text
        compared += 1
    if document["command"] == "arenas":
        for heap, arena in zip(heaps, document["arenas"]):
            # malloc_info leaves PREV_INUSE in the sizes of chunks in bins
            bins = arena["bins"]
            rest = (bins["chunks"] + 1, bins["bytes"] + arena["top_bytes"] + bins["chunks"])
            assert totals(heap) == {"fast": (arena["fast"]["chunks"], arena["fast"]["bytes"]), "rest": rest}
            assert int(heap.find("system[@type='current']").get("size")) == arena["system_bytes"]
            compared += 1
    summary = document.get("summary") if document["command"] == "chunks" else None
    if summary is not None:
        fast, rest = (tuple(map(sum, zip(*(totals(heap)[kind] for heap in heaps)))) for kind in ("fast", "rest"))
        free = summary["free"]
        assert (summary["fast"]["chunks"], summary["fast"]["bytes"]) == fast
        assert (free["chunks"] + len(heaps), free["bytes"] + summary["top"]["bytes"] + free["chunks"]) == rest
        compared += 1
    return compared


def is_well(subject):
    await_that(lambda: not {"t", "T"} & set(states(subject.pid)))


def look_on(truth_of, kind, folder, looks, with_truth):
    """Until there were so many looks, and so many of them with every lock free."""
    done, compared, breaches = 0, 0, []
    core = folder / "core"
    with Subject("churn", "4", "map") as subject:
        truth = truth_of(subject)
        while done < looks or compared < with_truth:
            words = LOOKS[kind][done % len(LOOKS[kind])].replace("CORE", str(core))
            documents = [answer(subject.pid, words)]
            done += 1
            is_well(subject)
            if "CORE" in LOOKS[kind][(done - 1) % len(LOOKS[kind])]:
                documents = [answer(core, each) for each in ("info --json", "arenas --json", "chunks --summary --json")]
                documents.append(answer(core, "check --json"))
            for document in documents:
                breaches += [each for each in document.get("breaches") or () if not each["transient"]]
                amiss = {each["id"] for each in document["problem_records"] if not each["id"].startswith(WITHOUT_LOCK)}
                assert not (amiss and truth.text), (words, document["problem_records"])
            if truth.text is not None:
                compared += bool(sum(agrees(document, truth.text) for document in documents))
            assert not breaches, (words, breaches)
            assert done < 20 * looks, (compared, truth.refused[-1:])
        assert subject.send("check") == "intact"
        assert subject.send("tick") == "ticked"
        assert subject.quit() == 0
    print(f"{kind}: {done} looks, {compared} with the locks free compared, {len(truth.refused)} calls refused")


@pytest.mark.parametrize("kind", full_after(1, LOOKS))
def test_the_same_as_malloc_info_in_the_same_hold(truth_of, kind, tmp_path):
    look_on(truth_of, kind, tmp_path, FEW, 1)


@pytest.mark.soak
@pytest.mark.parametrize("kind", LOOKS)
def test_two_hundred_looks(truth_of, kind, tmp_path):
    look_on(truth_of, kind, tmp_path, MANY, WITH_TRUTH)
