"""The calls that read many places: the same with numpy and without, in order, none with more than the kernel takes."""

from __future__ import annotations

import ctypes
import random

import pytest

from arenascope.sources.live import bulk_reads

SIZE, BASE, ASIDE = 24, 1 << 40, 1 << 41


@pytest.mark.parametrize("number", [1, 511, 512, 513, 1025, 5000])
@pytest.mark.parametrize("step", [1, 8, 16, 32, 4096])
@pytest.mark.parametrize("span", [60, 10_000, 10_000_000], ids=["dense", "in most pages", "sparse"])
def test_the_same_with_numpy(monkeypatch: pytest.MonkeyPatch, number: int, step: int, span: int) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed: scripts/setup.sh installs it")
    rng = random.Random(number)
    places = [0x7F0000000000 + step * rng.randrange(span) for _ in range(number)]
    plans, kept = [], []
    for worth in (0, 1 << 62):
        monkeypatch.setattr(bulk_reads, "WORTH_IT", worth)
        plan = bulk_reads.plan_for(places, SIZE, BASE, ASIDE)
        kept.append(plan.iovecs)
        calls = [each._replace(ours=words_of(each.ours), theirs=words_of(each.theirs)) for each in plan.calls]
        plans.append((plan.order, calls))
    assert plans[0] == plans[1]
    order, calls = plans[0]
    assert [places[index] for index in order] == sorted(places)
    read: list[int] = []
    for call in calls:
        assert max(len(call.ours), len(call.theirs)) <= 2 * bulk_reads.IOVECS
        assert sum(call.theirs[1::2]) == sum(call.ours[1::2]) == call.bytes
        assert max(call.theirs[1::2]) <= 4096 + SIZE
        ours = [each for each in zip(call.ours[0::2], call.ours[1::2]) if each[0] != ASIDE]
        assert all(size for _, size in ours)
        read += [target for start, size in ours for target in range(start, start + size, SIZE)]
    assert read == [BASE + SIZE * index for index in order]


def words_of(iovecs: bulk_reads.Iovecs) -> list[int]:
    """As the kernel finds them: addresses and sizes in turns."""
    return list((ctypes.c_uint64 * (2 * iovecs.number)).from_address(iovecs.address))
