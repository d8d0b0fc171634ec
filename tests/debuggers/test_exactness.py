"""Every scenario, live and from both kinds of core, with and without symbols, checked against glibc's own figures."""

from __future__ import annotations

from collections import Counter
from typing import Any

from album import DOCUMENTS, PINS, WITH_PINS, Sight
from scenarios import seen


def mallinfo(document: dict[str, Any]) -> dict[str, int]:
    """mallinfo2's, of `arenas`."""
    arenas = document["arenas"]
    free = sum(each["top_bytes"] + each["bins"]["bytes"] + each["fast"]["bytes"] for each in arenas)
    system = sum(each["system_bytes"] for each in arenas)
    return {
        "arena": system,
        "ordblks": sum(1 + each["bins"]["chunks"] for each in arenas),
        "smblks": sum(each["fast"]["chunks"] for each in arenas),
        "hblks": document["mmapped"]["chunks"],
        "hblkhd": document["mmapped"]["bytes"],
        "usmblks": 0,
        "fsmblks": sum(each["fast"]["bytes"] for each in arenas),
        "uordblks": system - free,
        "fordblks": free,
        "keepcost": arenas[0]["top_bytes"],
    }


@seen()
def test_malloc_info_byte_for_byte(sight: Sight) -> None:
    assert sight.text("info") == sight.info_xml
    assert sight.json("info")["xml"] == sight.info_xml


@seen()
def test_malloc_stats_byte_for_byte(sight: Sight) -> None:
    assert sight.text("stats") == sight.stats_text
    assert sight.json("stats")["text"] == sight.stats_text


@seen()
def test_mallinfo_from_arenas(sight: Sight) -> None:
    assert sight.truth["mallinfo"] == mallinfo(sight.json("arenas"))


@seen()
def test_envelope(sight: Sight) -> None:
    assert sight.truth["glibc"] == sight.platform.release
    for name in (*DOCUMENTS, *([PINS] if sight.view.scenario.name in WITH_PINS else [])):
        document = sight.json(name)
        door = sight.view.door.split("-")[0]
        assert (document["schema"], document["command"], document["door"]) == (1, name.split()[0], door)
        assert (document["complete"], document["problems"]) == (True, []), name
        assert document["target"] == {
            "kind": "live" if sight.live else "core",
            "pid": sight.pid,
            "page_bytes": 4096,
            "pointer_bytes": sight.platform.pointer_bytes,
        }
        assert document["glibc"] == {
            "version": sight.truth["glibc"],
            "located_by": "symbols" if sight.view.symbols else "scan",
            "main_arena": sight.json("arenas")["arenas"][0]["address"],
        }, name


@seen()
def test_commands_agree_with_each_other(sight: Sight) -> None:
    """A figure that two commands show is the same in both, and parts sum to their whole."""
    document = sight.json("arenas")
    by_kind, by_thread = Counter(), Counter()
    for row in sight.json("bins")["bins"]:
        kind = "fast" if row["kind"] == "fast" else "bins"
        by_kind[row["arena"], kind, "chunks"] += row["chunks"]
        by_kind[row["arena"], kind, "bytes"] += row["bytes"]
        if row["kind"] == "tcache":
            by_thread[row["tid"], "chunks"] += row["chunks"]
            by_thread[row["tid"], "bytes"] += row["bytes"]
    for each in document["arenas"]:
        for kind in ("fast", "bins"):
            assert each[kind] == {name: by_kind[each["index"], kind, name] for name in ("chunks", "bytes")}
        free = sum(each[kind]["bytes"] for kind in ("fast", "bins", "tcache")) + each["top_bytes"]
        assert each["used_bytes"] == each["system_bytes"] - free
    for thread in sight.json("threads")["threads"]:
        assert {name: thread["tcache"][name] for name in ("chunks", "bytes")} == {
            name: by_thread[thread["tid"], name] for name in ("chunks", "bytes")
        }
    heap_bytes = Counter()
    for heap in sight.json("heaps")["heaps"]:
        assert int(heap["end"], 16) - int(heap["address"], 16) == heap["bytes"]
        heap_bytes[heap["arena"]] += heap["bytes"]
    assert heap_bytes == {each["index"]: each["system_bytes"] for each in document["arenas"]}
    for key, whole in document["totals"].items():
        parts = [each[key] for each in document["arenas"]]
        if isinstance(whole, dict):
            assert whole == {name: sum(part[name] for part in parts) for name in whole}
        elif whole is not None:
            assert whole == sum(parts), key


@seen()
def test_live_blocks_are_within_what_is_used(sight: Sight) -> None:
    live = sight.truth["live"]
    used = sight.json("arenas")["totals"]["used_bytes"]
    # what is used beyond the ledger: thread caches themselves, thread stacks' bookkeeping, stdio
    assert live["usable_bytes"] - live["mmapped_usable_bytes"] < used


@seen()
def test_quick_tells_the_same_without_lists(sight: Sight) -> None:
    full, quick = sight.json("arenas"), sight.json("arenas --quick")
    unknown = dict.fromkeys(("used_bytes", "trim_bytes", "trim_resident_bytes"))
    unknown.update((kind, {"chunks": None, "bytes": None}) for kind in ("tcache", "fast", "bins"))
    assert len(full["arenas"]) == len(quick["arenas"])
    for whole, header in zip(full["arenas"], quick["arenas"]):
        assert header == {**whole, **unknown}
    assert (quick["complete"], quick["problems"]) == (True, [])


@seen()
def test_told_without_complaint(sight: Sight) -> None:
    for command in sight.outcomes:
        text = sight.text(command)
        assert text.endswith("\n"), command
        assert "incomplete:" not in text, command
        assert "\x1b" not in text, command
        assert sight.outcomes[command].seconds < 20, command
