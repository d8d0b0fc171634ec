"""Damage in a live heap, done by a debugger and undone afterwards: named by every door, and the end of none."""

from __future__ import annotations

from typing import BinaryIO, Iterable, Iterator, Union

import pytest
from doors import Door, Gdb, Live
from lldb_door import Lldb
from looks import SECONDS, TIMEOUT, Outcome, one_line
from made_once import Kept
from marks import full_after, in_full
from subjects import Subject

DAMAGES = {
    "fd astray": ("{small} + 16", "0x4141414141414141"),
    "fd unmapped": ("{small} + 16", "0x1000"),
    "fd unaligned": ("{small} + 16", "*(long*)({small} + 16) + 8"),
    "fd to itself": ("{small} + 16", "{small}"),
    "fd null": ("{small} + 16", "0"),
    "fd skips to the bin": ("{small} + 16", "(long)&main_arena.bins[0] + 16 * {small_index} - 32"),
    "a bin's own fd": ("(long)&main_arena.bins[2 * ({small_index} - 1)]", "0x10"),
    "a small chunk's size": ("{small} + 8", "0x7fffffffffff1"),
    "a small chunk's size of zero": ("{small} + 8", "0"),
    "a large chunk's size": ("{large} + 8", "0x21"),
    "a large chunk's fd": ("{large} + 16", "0x4141414141414141"),
    "unsorted's fd": ("{unsorted} + 16", "0x4141414141414141"),
    "a fast chunk's fd": ("{fast} + 16", "0x4141414141414141"),
    "a fastbin's head": ("(long)&main_arena.fastbinsY[{fast_index}]", "0x1230"),
    "a thread cache's entry": ("(long)&tcache->entries[{tcache_index}]", "0x1230"),
    "a cached chunk's next": ("(long)tcache->entries[{tcache_index}]", "0x4141414141414141"),
    "a thread cache's count": ("(long)&tcache->{counts}[{tcache_index} & ~3]", "0x0102010201020102"),
    "top": ("(long)&main_arena.top", "0x1000"),
    "top null": ("(long)&main_arena.top", "0"),
    "top's size": ("(long)main_arena.top + 8", "0xfffffffffff1"),
    "the ring": ("(long)&main_arena.next->next", "0x1000"),
    "the ring never closes": ("(long)&main_arena.next->next", "(long)main_arena.next"),
    "the ring's first step": ("(long)&main_arena.next", "0x1000"),
    "a heap's arena": ("((long)main_arena.next & ~0x3ffffffL)", "0"),
    "a heap's size": ("((long)main_arena.next & ~0x3ffffffL) + 16", "0x7ffffffff000"),
    "a heap's predecessor": ("((long)main_arena.next & ~0x3ffffffL) + 8", "(long)main_arena.next & ~0x3ffffffL"),
    "system_mem": ("(long)&main_arena.system_mem", "0x1000"),
}
LOOKS = (
    "arenas --json",
    "bins --json",
    "heaps --json",
    "threads --json",
    "info --json",
    "stats --json",
    "trim --json",
    "mmapped --json",
    "params --json",
    "arenas",
    "bins",
    "info",
    "trim",
)


class Places:
    """Where each damage is done, by GDB's reckoning: lists of the main arena and the main thread that hold chunks."""

    def __init__(self, gdb: Gdb, subject: Subject) -> None:
        self.subject = subject
        select = ["-p", str(subject.pid), "-ex", "thread 1"]
        lists = [
            {"value": name}
            for name in ("main_arena.bins", "main_arena.fastbinsY", "tcache->counts", "tcache->num_slots")
        ]
        bins, fast, cached, left = (outcome.value for outcome in gdb.drive(select, lists, load=()))
        counts = "counts" if cached is not None else "num_slots"  # from 2.42 on: how many more go in
        cached = cached if cached is not None else [-slots for slots in left]
        heads = {
            index: bins[2 * (index - 1)] for index in range(1, 127) if bins[2 * (index - 1)] != bins[2 * index - 1]
        }  # more than one chunk, so that a list is cut
        small, large = (next(index for index in heads if low <= index < high) for low, high in ((2, 64), (64, 127)))
        names = {
            "small": heads[small],
            "small_index": small,
            "large": heads[large],
            "unsorted": heads[1],
            "counts": counts,
            "tcache_index": max(range(len(cached)), key=lambda index: cached[index]),
        }
        if fast is not None:  # 2.43 has none
            names["fast_index"] = next(index for index, head in enumerate(fast) if head)
            names["fast"] = fast[names["fast_index"]]
        damages = {name: damage for name, damage in DAMAGES.items() if fast is not None or "{fast" not in damage[0]}
        words = [{"value": text.format(**names)} for damage in damages.values() for text in damage]
        values = [outcome.value & (1 << 64) - 1 for outcome in gdb.drive(select, words, load=())]
        self.damages = dict(zip(damages, zip(values[::2], values[1::2])))

        with open(f"/proc/{subject.pid}/mem", "rb", buffering=0) as memory:
            self.sound = {name: read_word(memory, address) for name, (address, _) in self.damages.items()}

    def undo(self) -> None:
        """Whatever a debugger that broke down has left."""
        with open(f"/proc/{self.subject.pid}/mem", "r+b", buffering=0) as memory:
            for name, (address, _) in self.damages.items():
                if read_word(memory, address) != self.sound[name]:
                    memory.seek(address)
                    memory.write(self.sound[name].to_bytes(8, "little"))


def read_word(memory: BinaryIO, address: int) -> int:
    memory.seek(address)
    return int.from_bytes(memory.read(8), "little")


class Sessions:
    """What a debugger said of each damage, which it does and undoes itself: it is started once for all of them that
    this run's tests ask it for."""

    def __init__(self, places: Places, wanted: Iterable[tuple[Door, bool, str]]) -> None:
        self.places = places
        self.names: dict[tuple[str, bool], list[str]] = {}
        for door, symbols, name in wanted:
            if name in places.damages:
                self.names.setdefault((door.name, symbols), []).append(name)
        self._kept = Kept()

    def of(self, door: Door, symbols: bool, name: str) -> dict[str, Outcome]:
        if name not in self.places.damages:
            pytest.skip("this glibc has no fastbins")
        return self._kept.get((door.name, symbols), lambda: self._hold(door, symbols))[name]

    def _hold(self, door: Union[Gdb, Lldb], symbols: bool) -> dict[str, dict[str, Outcome]]:
        places, names = self.places, self.names[door.name, symbols]
        asked = [f"heap {look}" for look in LOOKS]
        words = []
        for name in names:
            address, value = places.damages[name]
            words += [door.poke(address, value), *asked, door.poke(address, places.sound[name])]
        try:
            subject = Live(places.subject.pid, places.subject.program)
            outcomes = door.do(subject, words, symbols, timeout=TIMEOUT * 4)
        finally:
            places.undo()
        told = {}
        for start, name in zip(range(0, len(outcomes), len(asked) + 2), names):
            done, *said, undone = outcomes[start : start + len(asked) + 2]
            assert (done.error, undone.error) == (None, None), (done, undone)
            told[name] = dict(zip(LOOKS, said))
        return told


@pytest.fixture(scope="module")
def places(gdb: Gdb) -> Iterator[Places]:
    with Subject("bins") as subject:
        yield Places(gdb, subject)


@pytest.fixture(scope="module")
def sessions(request: pytest.FixtureRequest, places: Places) -> Sessions:
    here = (item for item in request.session.items if item.path == request.path and hasattr(item, "callspec"))
    asked = [item.callspec.params for item in here]
    return Sessions(places, [(params["door"], params["symbols"], params["name"]) for params in asked])


@pytest.mark.xdist_group("damage")
@pytest.mark.parametrize("symbols", [True, *in_full(False)], ids=["symbols", "stripped"])
@pytest.mark.parametrize("name", full_after(7, DAMAGES))
def test_damage_is_named_and_ends_nothing(door: Door, sessions: Sessions, name: str, symbols: bool) -> None:
    outcomes = sessions.of(door, symbols, name)
    for look, outcome in outcomes.items():
        assert outcome.seconds < SECONDS, look
        if outcome.error is not None:
            one_line(outcome)
        elif look.endswith("--json"):
            document = outcome.json()
            assert document["complete"] is (not document["problems"]), look
    arenas = outcomes["arenas --json"].json()
    assert arenas["complete"] is False
    assert any("0x" in problem for problem in arenas["problems"]), arenas["problems"]
    assert len(arenas["problems"]) < 100
    assert "incomplete: " in outcomes["arenas"].text


@pytest.mark.xdist_group("damage")
def test_all_damage_was_undone(gdb: Gdb, places: Places) -> None:
    """Else the tests above would have met each other's."""
    (outcome,) = gdb.run(Live(places.subject.pid, places.subject.program), ["info"])
    assert outcome.text == places.subject.info_xml
    assert places.subject.send("check") == "intact"
