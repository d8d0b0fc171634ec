"""A test that judges many looks tells which of them failed, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import pytest
from made_once import Looks, Sights, each_look


@dataclass(frozen=True)
class Look:
    door: str
    size: Optional[int] = 3

    @property
    def id(self) -> str:
        return f"bins-live-{self.door}-symbols"


def test_a_failure_names_the_look_and_the_figure() -> None:
    @each_look
    def sizes(sight: Look) -> None:
        if sight.size is None:
            pytest.skip("has none")
        assert sight.size == 3, "of the top"

    looks = Looks("bins-live", (Look("gdb"), Look("lldb-19", size=4), Look("shell", size=None)))
    with pytest.raises(pytest.fail.Exception) as failure:
        sizes(sight=Sights(looks, lambda view: view))
    first, *story = str(failure.value).splitlines()
    assert first == "1 of 3 looks, first bins-live-lldb-19-symbols: of the top"
    assert "--- bins-live-lldb-19-symbols" in story
    assert any(line.startswith("E ") and "4 == 3" in line for line in story), story


def test_only_where_every_look_is_skipped_the_test_is() -> None:
    @each_look
    def skips(sight: Look) -> None:
        pytest.skip("has none")

    with pytest.raises(pytest.skip.Exception, match="has none"):
        skips(sight=Sights(Looks("bins-live", (Look("gdb"), Look("shell"))), lambda view: view))
