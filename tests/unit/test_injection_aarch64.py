"""What a call into an aarch64 process has to know of threads, and the kernel's own layouts."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from arenascope.base.errors import MemoryReadError
from arenascope.sources.elf.elf_file import NT_ARM_GCS, NT_ARM_SSVE, NT_ARM_SVE, NT_ARM_TLS, NT_ARM_ZA, NT_FPREGSET
from arenascope.sources.live.injection import UNKNOWN, Thread
from arenascope.sources.live.injection_aarch64 import SYSTEM_CALLS, Aarch64, Aarch64Frames, scalable_registers
from arenascope.sources.memory import Memory

PROCESSOR = Aarch64()
GADGETS = {"system call": 0x1000, "sigreturn": 0x2000}
ERRNO, TOP, TLS = 0x7F00_0000_1000, 0xFFFF_8000_2340, 0xFFFF_8000_6780
NAMES = [*(f"x{number}" for number in range(31)), "sp", "pc", "cpsr"]


def scalable(length=64, flags=1):
    """An NT_ARM_SVE with all that a thread may have."""
    size = 32 * length + 17 * length // 8
    registers = bytes(at % 251 for at in range(size))
    header = struct.pack("<IIHHHH", 16 + size, 16 + size, length, length, flags, 0)
    return header + (registers if flags & 1 else b"\x11" * 528)


def a_thread(sve=b"", **changed):
    registers = {name: 0x1111_0000_0000 + at for at, name in enumerate(NAMES)}
    registers.update(sp=TOP, pc=0x4000_0000, cpsr=0x6000_1C00, tpidr_el0=TLS)
    registers.update(changed)
    sets = {NT_FPREGSET: bytes(at % 253 for at in range(528)), NT_ARM_TLS: TLS.to_bytes(8, "little")}
    sets.update({NT_ARM_SVE: sve, NT_ARM_SSVE: b"", NT_ARM_ZA: b"", NT_ARM_GCS: b""})
    return Thread(registers, sets, mask=0x200, inner_tid=7, inner_pid=5, errno_at=ERRNO, errno=11)


@pytest.mark.parametrize(
    ("changed", "fits"),
    [
        ({}, True),
        ({NT_ARM_SVE: scalable(256, flags=0)}, True),
        ({NT_ARM_SVE: scalable(64)}, True),
        ({NT_ARM_SVE: scalable(128)}, False),
        # as Linux 6.1 and later ones have them of a thread that uses neither
        ({NT_ARM_SSVE: scalable(32, flags=0), NT_ARM_ZA: struct.pack("<II8x", 16, 4112)}, True),
        ({NT_ARM_SSVE: scalable(32, flags=0)[:16], NT_ARM_ZA: struct.pack("<II8x", 16, 4112)}, True),
        ({NT_ARM_SSVE: scalable(32)}, False),
        ({NT_ARM_ZA: struct.pack("<II8x", 16 + 1024, 4112) + bytes(1024)}, False),
        ({NT_ARM_GCS: bytes(24)}, True),
        ({NT_ARM_GCS: b"\1" + bytes(23)}, False),
        ({NT_FPREGSET: b""}, False),
    ],
)
def test_what_no_signal_frame_brings_back_is_refused(changed, fits):
    """A second stack, a matrix, streaming mode, registers that are too wide."""
    assert (PROCESSOR.put_back({**a_thread().sets, **changed}) is not None) == fits


def memory_of(parts):
    def read(address, size):
        for start, data in parts.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise MemoryReadError(address, size)

    return Memory(read, 8, "little")


def code(*words):
    return struct.pack(f"<{len(words)}I", *words)


SVC, MOV, NOP, BRANCH = 0xD4000001, 0xD2800008, 0xD503201F, 0x14000004


@pytest.mark.parametrize(
    ("before", "x8", "number"),
    [
        ((NOP,), 63, 63),
        ((MOV | 101 << 5,), 101, 101),
        # it was interrupted before: x8 has restart_syscall's number
        ((MOV | 115 << 5, NOP, NOP), 128, 115),
        ((MOV | 98 << 5, 0xAA0203E3), 128, 98),
        ((MOV | 63 << 5,), 128, UNKNOWN),
        ((MOV | 101 << 5, BRANCH), 128, UNKNOWN),
        ((0xAA0103E8,), 128, UNKNOWN),
        ((), 128, UNKNOWN),
    ],
)
def test_which_call_is_made_again(before, x8, number):
    memory = memory_of({0x1000: code(*before, SVC)})
    registers = {"pc": 0x1000 + 4 * len(before), "x8": x8}
    assert PROCESSOR.call_under_way(registers, memory) == number
    assert PROCESSOR.call_under_way({**registers, "pc": 0x1000 + 4 * len(before) + 4}, memory) is None


@pytest.mark.parametrize(
    ("number", "registers", "exact"),
    [
        (101, {"x0": 8, "x1": 8}, True),
        (101, {"x0": 8, "x1": 0}, False),
        (115, {"x1": 1, "x2": 8, "x3": 0}, True),
        (115, {"x1": 0, "x2": 8, "x3": 8}, True),
        (115, {"x1": 0, "x2": 8, "x3": 16}, False),
        (98, {"x1": 128, "x3": 0}, True),
        (98, {"x1": 128, "x3": 8}, False),
        (98, {"x1": 128 | 9, "x3": 8}, True),
        (63, {}, True),
    ],
)
def test_no_wait_becomes_longer(number, registers, exact):
    """What is left of a time the kernel writes where the caller told it to; nowhere else is it known."""
    assert PROCESSOR.begins_anew(number, registers) == exact


# Debian's libc.so.6 of 2.36 and 2.43, which has landing pads
PLAIN = (0x90000BC0, 0xF946E000, 0xD53BD041, 0x8B000020, 0xD65F03C0)
PADDED = (0xD503245F, 0x90000C60, 0xF946DC00, 0xD53BD041, 0x8B000020, 0xD65F03C0)


@pytest.mark.parametrize(
    ("place", "words", "slot"), [(0x27BE0, PLAIN, 0x19F000 + 3520), (0x23340, PADDED, 0x1AF000 + 3512)]
)
def test_where_errno_lies(place, words, slot):
    memory = memory_of({place: code(*words), slot: (0x30).to_bytes(8, "little")})
    assert PROCESSOR.find_errno(TLS, place, memory) == TLS + 0x30
    assert PROCESSOR.find_errno(TLS, place, memory_of({place: code(*words)})) is None
    assert PROCESSOR.find_errno(TLS, place, memory_of({place: code(*words[:-1], SVC)})) is None


WANTED = """
sizeof(struct user_pt_regs) offsetof(struct user_pt_regs,sp) offsetof(struct user_pt_regs,pc)
offsetof(struct user_pt_regs,pstate) offsetof(struct frame,uc.uc_stack) offsetof(struct frame,uc.uc_sigmask)
offsetof(struct frame,uc.uc_mcontext.regs) offsetof(struct frame,uc.uc_mcontext.sp)
offsetof(struct frame,uc.uc_mcontext.pc) offsetof(struct frame,uc.uc_mcontext.pstate)
offsetof(struct frame,uc.uc_mcontext.__reserved) sizeof(struct fpsimd_context) offsetof(struct fpsimd_context,fpsr)
offsetof(struct fpsimd_context,vregs) sizeof(struct user_fpsimd_state) offsetof(struct user_fpsimd_state,fpsr)
FPSIMD_MAGIC SVE_MAGIC sizeof(struct sve_context) SVE_SIG_REGS_OFFSET SVE_SIG_CONTEXT_SIZE(4)
sizeof(struct user_sve_header) SVE_PT_SVE_OFFSET SVE_PT_REGS_MASK
__NR_tkill __NR_process_vm_writev __NR_futex __NR_restart_syscall __NR_rt_sigreturn __NR_nanosleep
__NR_clock_nanosleep __NR_ppoll __NR_epoll_pwait __NR_epoll_pwait2 __NR_pselect6 __NR_io_pgetevents
__NR_rt_sigsuspend __NR_io_uring_enter PSR_BTYPE_MASK
"""


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What the kernel's headers say, through the machine's own compiler, which need not run what it makes."""
    compiler = "aarch64-linux-gnu-gcc"
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    folder: Path = tmp_path_factory.mktemp("headers")
    includes = "stddef.h signal.h asm/ptrace.h asm/sigcontext.h asm/unistd.h"
    names = re.findall(r"\w+\([^)]*\)|\w+", WANTED)
    lines = [f"#include <{name}>" for name in includes.split()]
    lines.append("struct frame { siginfo_t info; ucontext_t uc; };")
    lines.append("void f(void) {")
    lines += [f'__asm__("@{name}= %c0" :: "i"((long)({name})));' for name in names]
    (folder / "wanted.c").write_text("\n".join([*lines, "}"]))
    subprocess.run([compiler, "-S", "-o", "wanted.s", "wanted.c"], cwd=folder, check=True, timeout=60)
    return {name: int(value) for name, value in re.findall(r"@(.*)= (\d+)", (folder / "wanted.s").read_text())}


@pytest.mark.full
def test_the_kernels_layouts(headers: dict[str, int]) -> None:
    """Of the general registers, of a signal frame with its records, and of the scalable registers."""
    thread = a_thread(scalable())
    packed = PROCESSOR.packed(thread.registers)
    assert len(packed) == PROCESSOR.general_bytes == headers["sizeof(struct user_pt_regs)"]
    for name, field in (("sp", "sp"), ("pc", "pc"), ("cpsr", "pstate")):
        at = headers[f"offsetof(struct user_pt_regs,{field})"]
        assert int.from_bytes(packed[at : at + 8], "little") == thread.registers[name]
    stands = tuple(headers[f"offsetof(struct user_pt_regs,{field})"] for field in ("pc", "sp"))
    assert PROCESSOR.stands_in == stands
    assert PROCESSOR.unpacked(packed, thread.sets) == thread.registers
    frame = Aarch64Frames(thread, GADGETS).back(0)

    def number(field: str, more: int = 0, size: int = 8) -> int:
        at = headers[f"offsetof(struct frame,uc.{field})"] + more
        return int.from_bytes(frame[at : at + size], "little")

    assert [number("uc_mcontext.regs", 8 * at) for at in range(31)] == [thread.registers[f"x{at}"] for at in range(31)]
    fields = [number(f"uc_mcontext.{field}") for field in ("sp", "pc", "pstate")]
    assert fields == [thread.registers[name] for name in ("sp", "pc", "cpsr")]
    assert number("uc_sigmask") == thread.mask
    # SS_AUTODISARM and its like begin at the top: this is none that sigaltstack takes
    assert number("uc_stack", 8, size=4) == 0x10
    at = headers["offsetof(struct frame,uc.uc_mcontext.__reserved)"]
    size, vectors = headers["sizeof(struct fpsimd_context)"], thread.sets[NT_FPREGSET]
    record = frame[at : at + size]
    assert struct.unpack_from("<II", record) == (headers["FPSIMD_MAGIC"], size)
    assert len(vectors) == headers["sizeof(struct user_fpsimd_state)"]
    status, own = headers["offsetof(struct fpsimd_context,fpsr)"], headers["offsetof(struct user_fpsimd_state,fpsr)"]
    assert record[status : status + 8] == vectors[own : own + 8]
    assert record[headers["offsetof(struct fpsimd_context,vregs)"] :] == vectors[:512]
    wide = frame[at + size :]
    magic, total, length = struct.unpack_from("<IIH", wide)
    context = headers["SVE_SIG_CONTEXT_SIZE(4)"]
    assert (magic, length) == (headers["SVE_MAGIC"], 64)
    assert context <= total < context + 16
    assert total % 16 == 0
    registers = scalable_registers(thread.sets[NT_ARM_SVE])
    assert len(registers) == context - headers["SVE_SIG_REGS_OFFSET"]
    assert wide[headers["SVE_SIG_REGS_OFFSET"] :].startswith(registers)
    assert not any(wide[total:])
    assert len(wide) == total + 16
    assert headers["sizeof(struct user_sve_header)"] == headers["SVE_PT_SVE_OFFSET"] == 16
    assert headers["SVE_PT_REGS_MASK"] == 1
    assert headers["PSR_BTYPE_MASK"] == 3 << 10


@pytest.mark.full
def test_the_kernels_numbers(headers: dict[str, int]) -> None:
    assert {name: headers[f"__NR_{name}"] for name in SYSTEM_CALLS} == SYSTEM_CALLS
    for name in ("ppoll", "epoll_pwait", "epoll_pwait2", "pselect6", "io_pgetevents"):
        assert headers[f"__NR_{name}"] in PROCESSOR.with_masks
    assert list(PROCESSOR.never) == [headers["__NR_rt_sigsuspend"], headers["__NR_io_uring_enter"]]
    waits = [headers[f"__NR_{name}"] for name in ("restart_syscall", "nanosleep", "clock_nanosleep")]
    assert waits == [128, 101, 115]
    mov = struct.pack("<I", MOV | headers["__NR_rt_sigreturn"] << 5)
    assert PROCESSOR.gadgets["sigreturn"] == mov + struct.pack("<I", SVC)
