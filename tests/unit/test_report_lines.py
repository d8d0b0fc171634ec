"""What `report` says without --full."""

from __future__ import annotations

import pytest

from arenascope.analysis.advice import Advice
from arenascope.base.model import Statement
from arenascope.cli.watch import OUTLINE
from arenascope.commands.framework.arguments import Parser
from arenascope.present.screens.advice_sentences import NOTHING_TO_SET, AdviceText, ByType
from arenascope.present.screens.report import Conclusions, lines
from arenascope.present.screens.verdict import cause
from arenascope.present.shared_text.text import Style


@pytest.mark.parametrize(("ways", "told"), [(("do this instead",), True), (NOTHING_TO_SET, False)])
def test_what_may_not_help_says_how_that_is_found_out(ways: tuple[str, ...], told: bool) -> None:
    """But not once more that there is nothing to do."""
    advice = (Advice("leave-arena-max", 0, {}), AdviceText("a setting", "a reason", ways))
    said = list(
        lines(
            Style(subject="1"),
            None,
            Conclusions(Statement("freed", {}), "a verdict", advice=[advice]),
            full=False,
            named=False,
        )
    )
    assert any(ways[0] in line for line in said) is told
    assert not any("a reason" in line for line in said)


def test_what_grew_by_type_takes_one_command_where_the_process_runs() -> None:
    program, name, *rest = ByType().command(Style(program="arenascope", subject="7")).split()
    options = Parser(OUTLINE, "watch").parse_args(rest)
    assert (program, name, options.pids, options.types) == ("arenascope", "watch", ["7"], True)
    assert options.save
    for style in (Style(), Style(program="arenascope", subject="7", core=True)):
        assert " snapshot " in ByType().command(style)


def test_the_type_that_strands_most_is_named_without_its_figures() -> None:
    figures = {"bytes": 9, "type_beside_bytes": 8, "type_blocks": 7, "type_bytes": 6}
    shared = Statement("pages-shared-with-live", figures, {"type": "Session", "certain": "yes"})
    what, _ = cause(shared, str)
    nameless, _ = cause(Statement("pages-shared-with-live", {"bytes": 9}), str)
    assert "Session" in what
    assert "7" not in what
    assert "beside" not in nameless
