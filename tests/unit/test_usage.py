"""What figures of many arenas with many threads cost: each is asked once, not each by each."""

from __future__ import annotations

from typing import Any, Sequence

from arenascope.analysis.arena_usage import header_usage
from arenascope.base.heap_model import ArenaHeader, ThreadCache


class _Counted(Sequence[ThreadCache]):
    """Threads, each counted whenever it is asked."""

    def __init__(self, caches: Sequence[ThreadCache]) -> None:
        self._caches, self.asked = caches, 0

    def __len__(self) -> int:
        return len(self._caches)

    def __getitem__(self, at: Any) -> Any:
        self.asked += 1
        return self._caches[at]


def test_arenas_do_not_ask_every_thread_each() -> None:
    """A process may have thousands of both."""
    headers = [
        ArenaHeader(
            index,
            4096 * index,
            main=not index,
            mutex=0,
            flags=0,
            top=0,
            top_bytes=0,
            next=0,
            attached_threads=2,
            system_mem=0,
            max_system_mem=0,
            initialised=True,
        )
        for index in range(50)
    ]
    caches = _Counted([ThreadCache(tid, None, tid % 50, None) for tid in range(100)])
    usages = header_usage(headers, {}, caches, {})
    assert [[each.tid for each in usage.threads] for usage in usages] == [[n, n + 50] for n in range(50)]
    assert caches.asked <= 2 * len(caches)
