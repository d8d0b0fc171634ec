"""What live blocks are by the types of debug information that the engine reads: it follows them itself."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence, get_args

from ...base.heap_model import CONTAINER_FORMS
from ...base.progress_bar import Meter
from ...engine import EngineTypes, TracedBlocks, TypesAnswer, TypesQuestion
from ...sources.target import ByteOrder
from ...sources.type_source import StartVariable
from ...sources.types_by_engine import read_facts, read_field
from ..graph.pointers_to import ImageSearch
from ..recognise.module_memory import LoadedModules
from .container_rows import ContainerRow, Elements
from .contents import Contents
from .named_blocks import BlockName, Form, NamedBlocks
from .rules import COMPARISONS, ProgramRules, Rule, Tag

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
    question.put(session.layout.align, session.target.page_size)
    _add_spans(question, [(each.start, each.end) for each in session.regions])
    question.put_list([each.chunk + session.layout.header for each in session.mmapped] if session.started else ())
    _add_spans(question, ground.page_spans)
    question.put(len(starts))
    for start in starts:
        _add_start(question, start, session.memory.pointer_size, session.memory.byte_order)
    lines = _add_rules(question, rules)
    traced = TracedBlocks(blocks.engine, types, question, blocks.bytes, meter, session.target.stop_if_asked)
    found.name, found.level, found.parent = traced.name, traced.level, traced.parent
    found.step, found.number, found.elements = traced.step, traced.number, traced.elements
    found.starts, found.traced = starts, traced
    _read_names(traced.names(), found, lines)
    found.contents = Contents(found.types, traced)


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


def _add_spans(question: TypesQuestion, spans: Sequence[tuple[int, int]]) -> None:
    """In order, without those of which parts were before."""
    found, end = list[int](), 0
    for start, stop in sorted(spans):
        start = max(start, end)
        if start < stop:
            found += (start, stop)
            end = stop
    question.put(len(found) // 2, *found)


def _add_start(question: TypesQuestion, start: StartVariable, word: int, byte_order: ByteOrder) -> None:
    value = None
    if start.data is not None and len(start.data) == word:
        value = int.from_bytes(start.data, byte_order)
    question.put(start.type, start.address, value, start.frame)
    question.string(start.label)
    question.put(start.within.code if start.within is not None else 0)
    question.put_list(start.words)


def _add_rules(question: TypesQuestion, rules: ProgramRules) -> Sequence[Rule]:
    """The lines, in the order in which they are numbered."""
    pointers = [(member, each) for member, some in rules.pointers.items() for each in some]
    inside = [(type, each) for type, some in rules.inside.items() for each in some]
    question.put(len(pointers) + len(inside))
    for member, pointer in pointers:
        question.put(0, 0, pointer.target, pointer.offset, pointer.back, pointer.is_array, pointer.and_more)
        question.string(member)
        tags = [*((0, each) for each in pointer.tags), *((1, each) for each in pointer.told)]
        question.put(len(tags))
        for of_target, tag in tags:
            _add_tag(question, of_target, tag)
    for type, member_rule in inside:
        question.put(1, type, member_rule.whole, member_rule.offset, 0, 0, 0)
        question.string("")
        question.put(0)
    return [*(each.rule for _, each in pointers), *(each.rule for _, each in inside)]


def _add_tag(question: TypesQuestion, of_target: int, tag: Tag) -> None:
    sign, value = COMPARISONS.index(tag.sign), tag.value & (1 << 64) - 1
    question.put(of_target, tag.bits.offset, tag.bits.size, tag.bits.signed, sign, value)


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
