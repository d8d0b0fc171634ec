"""Processors by their ELF numbers."""

from __future__ import annotations

EM_386, EM_PPC, EM_PPC64, EM_S390, EM_ARM, EM_X86_64 = 3, 20, 21, 22, 40, 62
EM_AARCH64, EM_RISCV, EM_LOONGARCH, EM_ALPHA = 183, 243, 258, 0x9026

MACHINE_NAMES = {
    EM_386: "i386",
    EM_PPC: "ppc",
    EM_PPC64: "ppc64",
    EM_S390: "s390x",
    EM_ARM: "arm",
    EM_X86_64: "x86_64",
    EM_AARCH64: "aarch64",
    EM_RISCV: "riscv64",
    EM_LOONGARCH: "loongarch64",
}


def machine_name(machine: int, pointer_size: int) -> str:
    """A processor's Linux name, "" where it is not known here."""
    if machine == EM_X86_64 and pointer_size == 4:
        return "x32"
    return MACHINE_NAMES.get(machine, "")
