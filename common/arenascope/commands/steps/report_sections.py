"""Gathers all that one page shows of an image: each section is a command's answer as JSON.

A live process is held once, while the report reads it and it is copied. Commands that walk heaps or follow pointers
read the copy.
"""

from __future__ import annotations

import re
import time
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...analysis.diff import Document
from ...base import optional_libraries
from ...base.class_names import type_words
from ...base.errors import ArenascopeError
from ...base.model import Statement
from ...base.whole_file import write_whole
from ...blocks.graph.leads import Owner
from ...blocks.graph.refs import ImageSearch
from ...blocks.map_strips import HeapStrips, draw, lay_types, page_cells, page_rows
from ...blocks.types_of_image import types_of
from ...present import glossary
from ...present.json_documents.owner_records import Written
from ...present.json_documents.report_records import ReportDocument
from ...present.pages.fill_page import filled, title_of
from ...present.pages.heap_map import packed
from ...present.screens.heap_map import sentences as map_sentences
from ...present.screens.owners import NO_SUM, whose
from ...present.screens.report import NO_SUM as NO_SUM_OF_STEPS
from ...present.screens.report import Conclusions, effect_of, facts_matter, holds_most, pages_line, worth_telling
from ...present.screens.types import name_of
from ...present.shared_text.findings import sentence, sentences
from ...present.shared_text.text import Style
from ...session.problems import problems_of
from ..framework.command import Answer, Context, parse_request
from .live_copy import CopiedImage

AT_ONCE = ("arenas", "trim", "params", "version")
"""Commands that the report has read most for: they run while the process is held."""
APART = (
    "types --owners --limit 1000",
    "pins --owners",
    "owners --limit 1000",
    "containers --limit 100",
    "leaks --limit 0",
)
"""Commands that walk heaps or follow pointers, each with what it shows."""
KEYED = ("pins", "owners")
"""Commands whose rows show paths, which may have keys: with --with-values these are shown."""
TYPED = (
    ("types", "types"),
    ("pins", "groups"),
    ("pins", "pins"),
    ("owners", "owners"),
    ("containers", "containers"),
    ("leaks", "leaks"),
)
"""Rows that have a type, by section."""


class ReportSection(NamedTuple):
    """A command's answer, or why there is none."""

    keys: Mapping[str, object]
    problems: Sequence[Statement] = ()


STOPPED = ReportSection({"failed": "stopped before it was looked at whole"})


class HtmlReport:
    """Gathers what a page shows. Create it before a process is held."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sections: dict[str, ReportSection] = {}
        more = " --with-values" if context.options.with_values else ""
        self._apart = [f"{words}{more if words.partition(' ')[0] in KEYED else ''}" for words in APART]
        for words in (*AT_ONCE, *self._apart):
            parse_request(words, context.door.find_command)
        for name in optional_libraries.NAMES:
            optional_libraries.where(name)

    def read_at_once(self) -> None:
        """Runs the commands of AT_ONCE, while the process is held."""
        session = self._context.session
        name = next((each.name for each in session.target_threads if each.tid == session.target.pid), None)
        self._sections["process"] = ReportSection({"name": name})
        for words in AT_ONCE:
            self._sections[words] = _section_of(self._context, words)

    def answer(
        self,
        report: ReportDocument,
        concluded: Conclusions,
        problems: list[Statement],
        looked: Optional[CopiedImage] = None,
        *,
        without_copy: Optional[Statement] = None,
    ) -> Answer:
        """The report's answer, after the page was written for --html. `looked`: the image in which pointers were
        followed; `without_copy`: why there is no copy if one is needed."""
        context = self._context
        path, style = context.options.html, context.style
        if without_copy is None:
            self._read_apart(looked)
        else:
            failed = ReportSection({"failed": sentence(without_copy)})
            self._sections.update({words.partition(" ")[0]: failed for words in (*self._apart, "map")})
        if STOPPED in self._sections.values():
            context.session.stopped = True
            problems.append(Statement("stopped", {"parts": len(self._sections) - self._count(STOPPED)}))
        for section in self._sections.values():
            problems += [each for each in section.problems if each not in problems]
        # release first: a debugger may hold the process still
        context.door.release()
        shown = {**self._facts(concluded), **self._documents(report), "problems": sentences(problems)}
        data = filled("report", shown, title_of("heap report", shown))
        write_whole(path, data)
        head = [concluded.verdict, *_holder(concluded, style)]
        text = [*map(style.bold, head), f"{path}: {style.size(len(data))} written"]
        report.html = Written(file=path, bytes=len(data))
        return Answer(report, text, problems)

    def _count(self, section: ReportSection) -> int:
        return sum(each == section for each in self._sections.values())

    def _read_apart(self, looked: Optional[CopiedImage]) -> None:
        session = looked.session if looked is not None else self._context.session
        beside = Context(self._context.door, self._context.options, session, copies=self._context.copies)
        for words in self._apart:
            self._sections[words.partition(" ")[0]] = _section_of(beside, words)
        owners = self._sections["owners"]
        rows = owners.keys.get("owners")
        if looked is not None and isinstance(rows, list):
            names = [_whose(looked.search, row) for row in rows]
            self._sections["owners"] = owners._replace(keys={**owners.keys, "whose": names, "no_sum": NO_SUM})
        self._sections["map"] = _section(beside, lambda: _map(beside))

    def _facts(self, concluded: Conclusions) -> dict[str, object]:
        """Facts shown in addition to the documents."""
        located, target, door = self._context.session.located, self._context.target, self._context.door
        style = self._context.style
        held = concluded.facts.held if concluded.facts is not None else None
        return {
            "pid": target.pid,
            "kind": target.kind,
            "glibc": located.version,
            "located_by": located.located_by,
            "taken": time.time() if target.kind == "live" else None,
            "held": door.held_seconds,
            "door": list(door.describe()),
            "holder": list(_holder(concluded, style)),
            "notes": list(concluded.notes),
            "no_sum": NO_SUM_OF_STEPS,
            "effects": [effect_of(*each) for each in concluded.advice],
            "jointly": [each.called if worth_telling(held, each.bytes) else None for each in held.jointly]
            if held is not None
            else [],
            "turns": [each.called for each in held.in_turn] if held is not None else [],
            "shared_pages": list(pages_line(style, held)) if held is not None else [],
            "words": [[word.names, _typed_here(word.meaning, style)] for word in glossary.words()],
            "ways": [list(zip(said.how(style), said.commands(style))) for _, said in concluded.advice],
        }

    def _documents(self, report: ReportDocument) -> dict[str, object]:
        documents = {"report": report.own(), **{each: section.keys for each, section in self._sections.items()}}
        map_keys = self._sections["map"].keys
        # the script that draws strips looks for these
        return {"heaps": [], "types": [], **map_keys, "called": self._short_names(), "documents": documents}

    def _short_names(self) -> dict[str, str]:
        """Short names of types that documents spell in full."""
        found = {}
        for section, key in TYPED:
            rows = self._sections[section].keys.get(key)
            types = [row.get("type") for row in rows] if isinstance(rows, list) else []
            found.update({each: type_words(each) for each in types if isinstance(each, str)})
        return {name: short for name, short in found.items() if short != name}


def _holder(concluded: Conclusions, style: Style) -> Iterator[str]:
    """Who holds most of what is in use, if that matters."""
    held = concluded.facts.held if concluded.facts is not None else None
    if held is not None and facts_matter(concluded, held.live):
        yield from (f"Of what is in use, {line}." for line in holds_most(style, held, 1))


def _typed_here(meaning: str, style: Style) -> str:
    """A glossary word's meaning, with commands as this door's user types them."""
    return re.sub("`heap ([^`]+)`", lambda found: f"`{_typed(found[1], style)}`", meaning)


def _typed(words: str, style: Style) -> str:
    return style.applied(words) if "--apply" in words else style.typed(words)


def _whose(search: ImageSearch, row: Document) -> str:
    """Owners of rows, in words."""
    return whose(search, Owner(row["kind"], row["name"], row["tid"], row["stale"]))


def _section_of(context: Context, words: str) -> ReportSection:
    return _section(context, lambda: parse_request(words, context.door.find_command).answered(context))


def _section(context: Context, ask: Callable[[], Answer]) -> ReportSection:
    if context.session.stopped:
        return STOPPED
    try:
        answer = ask()
    except ArenascopeError as error:
        return ReportSection({"failed": str(error)})
    except KeyboardInterrupt:
        context.session.stopped = True
        return STOPPED
    return ReportSection({**answer.keys, **answer.beside}, answer.problems)


def _map(context: Context) -> Answer:
    """The strips of every heap, with the types that hold back most memory."""
    session, picture = context.session, HeapStrips()
    types = None
    if session.started:
        draw(session, None, page_cells([heap for heaps in session.heaps.values() for heap in heaps]), picture)
        if not (session.stopped or session.target.image.redacted):
            types = lay_types(types_of(session), picture)
    said = map_sentences(context.style, picture.strips, started=session.started, whole=not session.findings)
    keys: dict[str, object] = {
        "sentence": "; ".join(said),
        "heaps": [packed(row) for row in page_rows(session, picture, len(types or ()))],
        "types": [{"name": name_of(row.kind), "module": row.kind.module} for row in types or ()],
    }
    return Answer(keys, (), [*picture.problems, *problems_of(session)])
