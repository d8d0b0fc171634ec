"""What live blocks are by the types of debug information that the engine reads: it follows them itself."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Sequence, get_args

from ...base.heap_model import CONTAINER_FORMS
from ...base.progress_bar import Meter
from ...engine import NOTHING, EngineTypes, ObjectReading, TracedBlocks, TypesAnswer, TypesQuestion
from ...sources.types_by_engine import read_facts, read_field
from ..graph.pointers_to import ImageSearch
from ..recognise.module_memory import LoadedModules
from .container_rows import ContainerRow, Elements
from .contents import Nature, Text
from .named_blocks import BlockName, Form, NamedBlocks, StartVariable
from .rules import COMPARISONS, ProgramRules, Rule, Tag
from .type_table import TypeTable

FORMS: Sequence[Form] = get_args(Form)


def name_by_engine(
    found: NamedBlocks,
    search: ImageSearch,
    types: EngineTypes,
    starts: Sequence[StartVariable],
    rules: ProgramRules,
    ground: LoadedModules,
    meter: Meter,
) -> None:
    """Names blocks. KeyboardInterrupt."""
    session, blocks = search.session, search.blocks
    question = TypesQuestion()
    question.number(session.layout.align)
    question.number(session.target.page_size)
    _add_spans(question, [(each.start, each.end) for each in session.regions])
    alone = [each.chunk + session.layout.header for each in session.mmapped] if session.started else []
    _add_numbers(question, alone)
    _add_spans(question, [(each.start, each.end) for each in ground.page_spans])
    question.number(len(starts))
    for start in starts:
        _add_start(question, start, session.memory.pointer_size, session.memory.byte_order)
    lines = _add_rules(question, rules)
    traced = TracedBlocks(blocks.engine, types, question, blocks.bytes, meter, session.target.stop_if_asked)
    found.name, found.level, found.parent = traced.name, traced.level, traced.parent
    found.step, found.number, found.elements = traced.step, traced.number, traced.elements
    found.starts, found.traced = starts, traced
    _read_names(traced.names(), found, lines)
    found.contents = ContentsByEngine(found.types, traced)


class ContentsByEngine:
    """Contents."""

    def __init__(self, types: TypeTable, traced: TracedBlocks) -> None:
        self.types = types
        self._reading = ObjectReading(traced)
        self._natures: dict[int, Nature] = {}

    def nature(self, type: int) -> Nature:
        known = self._natures.get(type)
        if known is None:
            known = self._natures[type] = Nature(*self._reading.nature(type))
        return known

    def text(self, type: int, address: int) -> Optional[Text]:
        _, text = self._reading.contents(type, address)
        return Text(*text) if text is not None else None

    def elements(self, type: int, address: int) -> Optional[int]:
        return self._reading.contents(type, address)[0]


def traced_rows(traced: TracedBlocks, matching: bytes) -> Iterator[ContainerRow]:
    """The containers of blocks that the engine named, what holds most first. `matching`: a byte for each block, 1 for
    those that match; or none. KeyboardInterrupt."""
    answer = traced.rows(matching)
    for _ in range(answer.number()):
        path, type, form = answer.string(), answer.string(), CONTAINER_FORMS[answer.number()]
        links, containers = [answer.string() for _ in range(answer.number())], answer.size()
        elements = Elements(answer.size(), answer.size(), answer.option(), answer.option())
        held_blocks, held_bytes, matching_blocks, matching_bytes, sample, certain = (answer.size() for _ in range(6))
        yield ContainerRow(
            path,
            type,
            form=form,
            links=links,
            containers=containers,
            elements=elements,
            held_blocks=held_blocks,
            held_bytes=held_bytes,
            matching_blocks=matching_blocks,
            matching_bytes=matching_bytes,
            sample=sample,
            certain=bool(certain),
            element=answer.string(),
        )


def _option(number: Optional[int]) -> int:
    return NOTHING if number is None else number


def _add_numbers(question: TypesQuestion, numbers: Sequence[int]) -> None:
    question.number(len(numbers))
    for each in numbers:
        question.number(each)


def _add_spans(question: TypesQuestion, spans: Sequence[tuple[int, int]]) -> None:
    """In order, without those of which parts were before."""
    found, end = list[int](), 0
    for start, stop in sorted(spans):
        start = max(start, end)
        if start < stop:
            found += (start, stop)
            end = stop
    question.number(len(found) // 2)
    for each in found:
        question.number(each)


def _add_start(question: TypesQuestion, start: StartVariable, word: int, byte_order: str) -> None:
    value = None
    if start.data is not None and len(start.data) == word:
        value = int.from_bytes(start.data, "little" if byte_order == "little" else "big")
    for number in (start.type, _option(start.address), _option(value), _option(start.frame)):
        question.number(number)
    question.string(start.label.encode("utf-8", "replace"))
    question.number(start.within.code if start.within is not None else 0)
    _add_numbers(question, start.words)


def _add_rules(question: TypesQuestion, rules: ProgramRules) -> Sequence[Rule]:
    """The lines, in the order in which they are numbered."""
    pointers = [(member, each) for member, some in rules.pointers.items() for each in some]
    inside = [(type, each) for type, some in rules.inside.items() for each in some]
    question.number(len(pointers) + len(inside))
    for member, pointer in pointers:
        flags = int(pointer.is_array), int(pointer.and_more)
        for number in (0, 0, _option(pointer.target), pointer.offset, pointer.back, *flags):
            question.number(number)
        question.string(member.encode("utf-8", "replace"))
        tags = [*((0, each) for each in pointer.tags), *((1, each) for each in pointer.told)]
        question.number(len(tags))
        for of_target, tag in tags:
            _add_tag(question, of_target, tag)
    for type, member_rule in inside:
        for number in (1, type, member_rule.whole, member_rule.offset, 0, 0, 0):
            question.number(number)
        question.string(b"")
        question.number(0)
    return [*(each.rule for _, each in pointers), *(each.rule for _, each in inside)]


def _add_tag(question: TypesQuestion, of_target: int, tag: Tag) -> None:
    value = tag.value & (1 << 64) - 1
    signed, sign = int(tag.bits.signed), COMPARISONS.index(tag.sign)
    for number in (of_target, tag.bits.offset, tag.bits.size, signed, sign, value):
        question.number(number)


def _read_names(answer: TypesAnswer, found: NamedBlocks, lines: Sequence[Rule]) -> None:
    for _ in range(answer.number()):
        text, form, type, front = answer.string(), FORMS[answer.number()], answer.option(), answer.size()
        name = BlockName(text, form, type, front, words=bool(answer.number()))
        found.names.append(name._replace(label=answer.string()))
        found.sure.append(answer.size())
    found.steps = [answer.string() for _ in range(answer.number())]
    for _ in range(answer.number()):
        name_of_type = answer.string()
        found.damaged[name_of_type] = answer.number()
    counts = [answer.number() for _ in range(answer.number())]
    contradicted: Mapping[Rule, int] = {line: count for line, count in zip(lines, counts) if count}
    found.contradicted = contradicted
    found.enclosing = {answer.number() for _ in range(answer.number())}
    for _ in range(answer.number()):
        number, facts = answer.number(), read_facts(answer)
        key = next((read_field(answer) for _ in range(answer.number())), None)
        found.types.adopt(number, facts, key, answer.option())
    found.types.met = [answer.number() for _ in range(answer.number())]
