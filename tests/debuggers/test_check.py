"""No heap that malloc made breaks a rule, and all of it was looked at."""

from __future__ import annotations

import re

from album import Sight
from scenarios import seen


@seen()
def test_what_malloc_made_is_sound(sight: Sight) -> None:
    document = sight.json("check")
    assert document["breaches"] == []
    # LLDB 16 does not follow the stacks of a static program's threads to their starts: any word there counts
    is_guess = (sight.view.door, sight.view.scenario.name) == ("lldb-16", "bins-static-pie")
    assert document["busy"] == [] or (is_guess and not any(each["locked"] for each in document["busy"]))
    assert sight.text("check").startswith("sound: ") if sight.has_texts else True
    if sight.view.door == "shell":
        assert sight.outcomes["check --json"].value == 0


@seen()
def test_all_of_it_was_looked_at(sight: Sight) -> None:
    checked = sight.json("check")["checked"]
    assert checked["arenas"] == sight.info_xml.count("<heap nr=")
    assert checked["heaps"] == len(sight.json("heaps")["heaps"])
    assert checked["bin_entries"] == sum(map(int, re.findall(r'<size .* count="(\d+)"/>', sight.info_xml))) + sum(
        map(int, re.findall(r'<unsorted .* count="(\d+)"/>', sight.info_xml))
    )
    assert checked["tcache_entries"] == sum(each["tcache"]["chunks"] for each in sight.json("threads")["threads"])
    live = sight.truth["live"]
    if live is not None:
        # besides what the program holds and what is free: the thread caches' own blocks, stdio's, threads' stacks'
        known = live["chunks"] - live["mmapped_chunks"] + checked["bin_entries"] + checked["tcache_entries"]
        assert known <= checked["chunks"]
        # where somebody else's bytes are written to look like chunks, they do
        if sight.view.scenario.name != "foreign_sbrk-fake":
            assert checked["chunks"] <= known + 200
