"""Whether what the commands say of an image is what was laid: every figure right, or not given, never another."""

from __future__ import annotations

from itertools import product
from typing import Any, Callable, Iterable, Mapping, Optional

from fake_door import located_once, run_json
from fake_target import FakeTarget
from future_rows import NEWEST
from heap_pictures import expected_figures, tally
from heapbuilder import ArenaTruth, HeapImage

from arenascope.base.errors import ArenascopeError


class Misread(AssertionError):
    """A figure that is not what was laid."""


NOT_IN_MP = ("global_max_fast", "perturb_byte")


def verdict(image: HeapImage, target: Optional[FakeTarget] = None) -> str:
    """ "right", "partial" (marked so, and what is given is right) or "refused" (in words); Misread otherwise."""
    with located_once():
        return _verdict(image, target or image.target())


def _verdict(image: HeapImage, target: FakeTarget) -> str:
    try:
        document = run_json(target, "arenas")
    except ArenascopeError as error:
        # the release, and the newest that is known
        if image.row.version not in str(error) or NEWEST not in str(error) or len(str(error)) < 60:
            raise Misread(f"refused without a reason: {error}") from None
        return "refused"
    whole = [_arenas(image, document), _heaps(image, target), _bins(image, target), _threads(image, target)]
    whole.append(_params(image, run_json(target, "params")))
    if document["complete"]:
        if not all(whole[:-1]):
            raise Misread("something is missing, and not marked")
        return "right"
    if not document["problems"]:
        raise Misread("partial, and nothing says why")
    return "partial"


def compare(what: str, given: Any, true: Any) -> bool:
    """Whether it is given at all."""
    if isinstance(true, Mapping):
        each = [compare(f"{what}.{key}", (given or {}).get(key), value) for key, value in true.items()]
        return all(each)
    if given is not None and given != true:
        raise Misread(f"{what} is {given!r}, laid was {true!r}")
    return given is not None


def figures(arena: ArenaTruth) -> dict[str, Any]:
    return {**expected_figures(arena), "heaps": 1 if arena.contiguous and arena.heaps else len(arena.heaps)}


def _arenas(image: HeapImage, document: Mapping[str, Any]) -> bool:
    truth = image.truth
    given = {arena["index"]: arena for arena in document["arenas"]}
    if document["complete"] and set(given) != {arena.index for arena in truth.arenas}:
        raise Misread(f"arenas {sorted(given)} of {len(truth.arenas)}")
    whole = [compare(f"arena {arena.index}", given.get(arena.index), figures(arena)) for arena in truth.arenas]
    for index, arena in given.items():
        compare("attached_threads", arena["attached_threads"], truth.arenas[index].attached_threads)
    totals = {
        name: sum(figures(arena)[name] for arena in truth.arenas)
        for name in ("system_bytes", "max_system_bytes", "used_bytes", "top_bytes")
    }
    whole.append(compare("totals", document["totals"], totals))
    mapped = {"chunks": truth.mp["n_mmaps"], "bytes": truth.mp["mmapped_mem"]}
    whole.append(compare("mmapped", document["mmapped"], mapped))
    return all(whole)


def _heaps(image: HeapImage, target: FakeTarget) -> bool:
    document = run_json(target, "heaps")
    true = {f"{heap.address:#x}": heap for arena in image.truth.arenas if arena.index for heap in arena.heaps}
    given = {each["address"]: each for each in document["heaps"] if each["arena"]}
    if document["complete"] and set(given) != set(true):
        raise Misread(f"heaps {sorted(given)}, laid were {sorted(true)}")
    for address, heap in true.items():
        laid = {"end": f"{heap.end:#x}", "bytes": heap.size, "mprotect_bytes": heap.mprotect_size}
        compare(f"heap {address}", given.get(address), laid)
    return set(given) == set(true)


def _bins(image: HeapImage, target: FakeTarget) -> bool:
    document = run_json(target, "bins")
    rows = [each for each in document["bins"] if each["kind"] == "tcache"]
    given = {(each["tid"], each["index"]): (each["chunks"], each["bytes"]) for each in rows}
    true = {
        (thread.tid, index): (len(chunks), sum(chunk.size for chunk in chunks))
        for thread in image.truth.threads
        for index, chunks in thread.bins.items()
    }
    for key, value in given.items():
        if true.get(key) != value:
            raise Misread(f"cache bin {key} is {value}, laid was {true.get(key)}")
    if document["complete"] and set(given) != set(true):
        raise Misread("cache bins are missing, and not marked")
    return set(given) == set(true)


def _threads(image: HeapImage, target: FakeTarget) -> bool:
    document = run_json(target, "threads")
    given = {each["tid"]: each for each in document["threads"]}
    index = {arena.address: arena.index for arena in image.truth.arenas}
    whole = True
    for thread in image.truth.threads:
        each = given[thread.tid]
        true = tally(thread.cached)
        compare(f"thread {thread.tid}", each["arena"], index[thread.arena] if thread.arena is not None else None)
        name = f"cache of {thread.tid}"
        whole = compare(name, each["tcache"], {"chunks": true.chunks, "bytes": true.bytes}) and whole
        compare(name, each["tcache"]["address"], f"{thread.tcache:#x}" if thread.tcache else None)
    return whole


def _params(image: HeapImage, document: Mapping[str, Any]) -> bool:
    true = image.truth.mp
    # two are variables of libc's own, no members of mp_: test_params.py asks for these
    given = {each["name"]: each["value"] for each in document["params"] if each["name"] not in NOT_IN_MP}
    for name, value in given.items():
        compare(f"mp_.{name}", value, true.get(name, "no such member"))
    return set(given) == set(true)


def every(check: Callable[..., None], *columns: Iterable[object]) -> None:
    """One test for thousands of small checks, which pytest would collect again in each of its workers."""
    failed = {}
    for values in product(*columns):
        try:
            check(*values)
        except AssertionError as error:
            failed[values] = error
    assert failed == {}
