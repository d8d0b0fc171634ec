"""What a thread that was made to call goes through alone, played instruction by instruction over the prepared bytes."""

from __future__ import annotations

import struct

import pytest
from prepared import Written

from arenascope.sources.elf.elf_file import NT_X86_XSTATE
from arenascope.sources.live import injection_x86_64 as injection
from arenascope.sources.live.injection import InjectedCall, StackLayout, Thread, unlocking
from arenascope.sources.live.injection_x86_64 import FLAGS, SYSTEM_CALLS, X8664Frames

ORDER = [
    "r8",
    "r9",
    "r10",
    "r11",
    "r12",
    "r13",
    "r14",
    "r15",
    "rdi",
    "rsi",
    "rbp",
    "rbx",
    "rdx",
    "rax",
    "rcx",
    "rsp",
    "rip",
    "eflags",
]
GADGETS = {"pop rdi": 0x1000, "pop rsi": 0x1010, "pop rax": 0x1020, "system call": 0x1030, "sigreturn": 0x1040}
FUNCTION, LOCK, MUTEX, ERRNO = 0x5000, 0x6000, 0x7F00_0000_0000, 0x7F00_0000_1000
TOP = 0x7FFE_0001_2348
URG = 23
TRIM = [InjectedCall(FUNCTION, [0])]
TOPS = [
    InjectedCall(LOCK, [MUTEX], unlocks=MUTEX),
    InjectedCall(FUNCTION, [1, 2, 3], unlocks=MUTEX),
    InjectedCall(0, unlocking(MUTEX), system_call="futex"),
]


def vectors(size=2696, features=0x2E7, in_use=7):
    data = bytearray(b"\x77" * size)
    struct.pack_into("<Q", data, injection.SW_NOTES, features)
    struct.pack_into("<Q", data, 512, in_use)
    return bytes(data)


def a_thread(**changed):
    registers = {name: 0x1111 * at for at, name in enumerate(ORDER, 1)}
    registers.update(rsp=TOP, rip=0x4000_0000, eflags=0x246, cs=0x33, ss=0x2B, orig_rax=(1 << 64) - 1)
    registers.update({name: value & ((1 << 64) - 1) for name, value in changed.items()})
    return Thread(registers, {NT_X86_XSTATE: vectors()}, mask=0x200, inner_tid=7, inner_pid=5, errno_at=ERRNO, errno=11)


class Alone(Written):
    """A processor and a kernel that know just these instructions. Whatever lies below the stack pointer is lost,
    as functions and signal handlers write there."""

    def __init__(self, thread, steps):
        super().__init__(StackLayout(X8664Frames(thread, GADGETS), thread, TOP, steps, URG).prepared())
        assert self.end <= thread.registers["rsp"] - injection.RED_ZONE

    def word(self, at):
        return int.from_bytes(self.read(at, 8), "little")

    def run(self, entry):
        """From these registers on until the thread is back; its registers, mask and vectors then."""
        now = dict(entry)
        mask = None
        for _ in range(100):
            below = max(now["rsp"] - self.base, 0)
            self.memory[:below] = b"\xcc" * below
            at = now["rip"]
            if at == GADGETS["sigreturn"]:
                context = now["rsp"]
                now = dict(zip(ORDER, struct.unpack("<18Q", self.read(context + 40, 144))))
                assert struct.unpack("<4H", self.read(context + 184, 8)) == (0x33, 0, 0, 0x2B)
                mask, floating = self.word(context + 296), self.word(context + 40 + 184)
                if floating:
                    return now, mask, self.read(floating, 2700)
                continue
            if at == GADGETS["system call"]:
                self.log.append((now["rax"], now["rdi"], now["rsi"]))
                if now["rax"] == SYSTEM_CALLS["process_vm_writev"]:
                    source, size = self.word(now["rsi"]), self.word(now["rsi"] + 8)
                    target, _ = self.word(now["r10"]), self.word(now["r10"] + 8)
                    self.log.append((target, self.read(source, size)))
            elif at in (FUNCTION, LOCK):
                assert now["rsp"] % 16 == 8
                self.log.append((at, now["rdi"]))
            else:
                name = next(name for name, address in GADGETS.items() if address == at).split()[1]
                now[name] = self.word(now["rsp"])
                now["rsp"] += 8
            now["rip"] = self.word(now["rsp"])
            now["rsp"] += 8
        raise AssertionError("it does not find back")


STOP = (SYSTEM_CALLS["tkill"], 7, URG)
BACK = (ERRNO, struct.pack("<I", 11))


@pytest.mark.parametrize(
    ("steps", "first", "calls"),
    [
        (TRIM, 0, [(FUNCTION, 0)]),
        (TOPS, 0, [(LOCK, MUTEX)]),
        (TOPS, 1, [(FUNCTION, 1)]),
        (TOPS, 2, []),
    ],
)
def test_the_injected_code_finds_back_alone_from_every_step(steps, first, calls):
    thread = a_thread()
    alone = Alone(thread, steps)
    now, mask, floating = alone.run(alone.ready.entries[first])
    assert now == {name: thread.registers[name] for name in ORDER}
    assert mask == thread.mask
    vectors = thread.sets[NT_X86_XSTATE]
    assert floating[:464] == vectors[:464]
    assert struct.unpack_from("<IIQI", floating, 464) == (0x46505853, 2700, 0x2E7, 2696)
    assert floating[512:2696] == vectors[512:]
    assert floating[2696:] == struct.pack("<I", 0x46505845)
    # alone, it never goes on to what only a guard may let it do
    assert [each for each in alone.log if each[0] in (FUNCTION, LOCK)] == calls
    assert STOP in alone.log
    assert alone.log[-1] == BACK
    # whoever has the lock gives it back, and once
    assert sum(each[0] == SYSTEM_CALLS["futex"] for each in alone.log) == (0 if steps is TRIM else 1)


@pytest.mark.parametrize(
    ("rax", "number", "after"),
    [(-512, 0, (0, -2)), (-514, 23, (23, -2)), (-516, 230, (230, -2)), (-4, 0, (-4, 0)), (3, -1, (3, 0))],
)
def test_an_interrupted_system_call_is_made_again(rax, number, after):
    thread = a_thread(rax=rax, orig_rax=number)
    alone = Alone(thread, TRIM)
    now, _, _ = alone.run(alone.ready.entries[0])
    assert (now["rax"], now["rip"]) == (after[0] & ((1 << 64) - 1), 0x4000_0000 + after[1])


def test_what_only_the_kernel_remembers_is_not_forgotten_while_a_guard_lives():
    """rt_sigreturn would make restart_syscall return EINTR: it begins with the function itself."""
    assert Alone(a_thread(rax=-516, orig_rax=230), TRIM).ready.entries[0]["rip"] == FUNCTION
    assert Alone(a_thread(rax=-512, orig_rax=0), TRIM).ready.entries[0]["rip"] == GADGETS["sigreturn"]


def test_nothing_makes_the_kernel_restart_what_was_not_interrupted():
    for entry in Alone(a_thread(rax=-512, orig_rax=0), TOPS).ready.entries:
        assert (entry["orig_rax"], entry["eflags"]) == ((1 << 64) - 1, FLAGS)


@pytest.mark.parametrize(
    ("size", "features", "in_use", "bytes_used"),
    [
        (2696, 0x2E7, 7, 2696),
        (832, 7, 7, 832),
        (11008, 0x602E7, 7, 2816),
        (11008, 0x602E7, 0x40007, None),
        (512, 7, 7, None),
    ],
)
def test_how_much_of_the_vectors_a_signal_frame_may_have(size, features, in_use, bytes_used):
    data = vectors(max(size, 520), features, in_use)[:size]
    assert injection.usable(data) == bytes_used
