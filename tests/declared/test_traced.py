"""What the engine names by the types that it reads itself, in programs of which it is known what each block is."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest
from sites import PROGRAMS, Sited, compare, sizes_of
from subjects import started
from test_names import LEAST, Least
from test_truth import ARGUMENTS, LEVELS

from arenascope.blocks.declared.container_rows import container_rows
from arenascope.blocks.declared.contents_by_layouts import ContentsByLayouts
from arenascope.blocks.declared.layouts import TypeTable
from arenascope.blocks.declared.memory_reader import MemoryReader
from arenascope.blocks.declared.named_blocks import NamedBlocks
from arenascope.blocks.declared.once_per_image import containers_of, named_blocks
from arenascope.blocks.declared.type_values import types_called
from arenascope.blocks.graph.blocks import live_blocks
from arenascope.blocks.graph.refs import ImageSearch
from arenascope.blocks.graph.roots import find_roots
from arenascope.blocks.recognise.module_memory import ground_of
from arenascope.session.session import Session
from arenascope.sources.live.process import ProcessImage
from arenascope.sources.shell_target import ShellTarget
from arenascope.sources.types_by_engine import TypesByEngine

pytestmark = pytest.mark.xdist_group("declared names")
WITHOUT_LOCALS = {
    "idioms.cc": Least(0.88, 0.85, by_type=0.88),
    "idioms.libc++": Least(0.83, 0.85, by_type=0.83),
    "idioms.rs": Least(0.90, 0.90, by_type=0.90),
}
"""Of programs that main's own variables hold in part."""
DEEPEST = 6
"""So far members of members are looked into."""
BUILDS = [
    pytest.param(program, level, id=f"{program}.{level}", marks=[pytest.mark.full] * (level != "O2"))
    for program in LEAST
    for level in LEVELS
    if program != "orders" and (program != "idioms.libc++" or level == "O0")
]
"""Without what main's own variables hold, and what clang has optimised so that other names are better."""


@contextmanager
def traced(pid: int) -> Iterator[tuple[Session, NamedBlocks]]:
    with ShellTarget(ProcessImage(pid)) as target:
        types = TypesByEngine(target, target.debug_folders, None)
        session = Session(target)
        blocks = live_blocks(session)
        search = ImageSearch(session, blocks, find_roots(session, blocks))
        yield session, named_blocks(search, types, ground_of(session))


@pytest.mark.parametrize(("program", "level"), BUILDS)
def test_no_name_is_wrong(program: str, level: str, tmp_path: Path) -> None:
    """Certain or not; and as much has a name as was reached."""
    sited = Sited(PROGRAMS / f"{program}.{level}", tmp_path, *ARGUMENTS[program])
    try:
        expected = sited.expected()
        sizes = sizes_of(sited.program, {each.type for each in expected.values() if each.type})
        with traced(sited.pid) as (_, found):
            pass
    finally:
        sited.end()
    named = [(start, found.name_of(number)) for number, start in enumerate(found.blocks.starts)]
    said = compare({start: name.text for start, name in named if name is not None}, expected, sizes)
    assert said.wrong == []
    least = WITHOUT_LOCALS.get(program, LEAST[program])
    assert said.typed + said.by_field >= least.named
    assert said.typed >= least.by_type
    assert said.typed_bytes_without_leaks >= least.bytes


@pytest.mark.parametrize("program", ["daemon", "server", "idioms.cc", "idioms.rs"])
def test_containers_have_the_same_rows(program: str, tmp_path: Path) -> None:
    """As of the same names without the engine."""
    with started(PROGRAMS / f"{program}.O2", *ARGUMENTS[program]) as process, traced(process.pid) as (session, named):
        expected = container_rows(named, MemoryReader(session, named.blocks, ground_of(session)))
        assert containers_of(session, named) == [row._replace(links=[*row.links]) for row in expected]
        assert len(expected) > 5


def structs_in(types: TypeTable, type: int, address: int, depth: int = 0) -> Iterator[tuple[int, int]]:
    facts = types.facts(type)
    if facts.form == "struct" and depth < DEEPEST:
        yield type, address
        for field in facts.fields:
            yield from structs_in(types, field.type, address + field.offset, depth + 1)


@pytest.mark.parametrize("program", ["server", "idioms.cc", "idioms.libc++", "idioms.rs"])
def test_objects_hold_the_same(program: str) -> None:
    """As by the containers that Python reads: texts and how many elements there are."""
    texts = elements = 0
    with started(PROGRAMS / f"{program}.O2", *ARGUMENTS[program]) as process, traced(process.pid) as (session, named):
        assert named.contents is not None
        assert named.layouts is not None
        expected = ContentsByLayouts(named.layouts, MemoryReader(session, named.blocks, ground_of(session)))
        for block, start in enumerate(named.blocks.starts):
            name = named.name_of(block)
            if name is None or name.type is None or name.form == "field":
                continue
            for type, address in structs_in(expected.types, name.type, start + name.front):
                told = named.contents.text(type, address), named.contents.elements(type, address)
                assert told == (expected.text(type, address), expected.elements(type, address))
                assert named.contents.nature(type) == expected.nature(type)
                texts += told[0] is not None
                elements += bool(told[1])
    assert texts > 20
    assert elements > 100


def test_a_type_is_known_that_lies_in_blocks_of_another() -> None:
    with started(PROGRAMS / "server.O2", *ARGUMENTS["server"]) as process, traced(process.pid) as (_, named):
        assert named.contents is not None
        found = [named.contents.types.facts(each.type).name for each in types_called(named, "Session")]
        assert found == ["Session"]
