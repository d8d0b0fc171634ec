"""Types that the engine met while it named blocks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

import pytest
from sites import PROGRAMS
from subjects import started
from test_truth import ARGUMENTS

from arenascope.blocks.declared.named_blocks import NamedBlocks
from arenascope.blocks.declared.once_per_image import named_blocks
from arenascope.blocks.declared.type_values import types_called
from arenascope.blocks.graph.blocks import live_blocks
from arenascope.blocks.graph.pointers_to import ImageSearch
from arenascope.blocks.graph.roots import find_roots
from arenascope.blocks.recognise.module_memory import ground_of
from arenascope.session.session import Session
from arenascope.sources.live.process import ProcessImage
from arenascope.sources.shell_target import ShellTarget

pytestmark = pytest.mark.xdist_group("declared names")


@contextmanager
def traced(pid: int) -> Iterator[tuple[Session, NamedBlocks]]:
    with ShellTarget(ProcessImage(pid), declared=True) as target:
        assert target.types is not None
        session = Session(target)
        blocks = live_blocks(session)
        search = ImageSearch(session, blocks, find_roots(session, blocks))
        yield session, named_blocks(search, target.types, ground_of(session))


def test_a_type_is_known_that_lies_in_blocks_of_another() -> None:
    with started(PROGRAMS / "server.O2", *ARGUMENTS["server"]) as process, traced(process.pid) as (_, named):
        assert named.contents is not None
        found = [named.contents.types.facts(each.type).name for each in types_called(named, "Session")]
        assert found == ["Session"]
