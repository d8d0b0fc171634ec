"""Other machines, under QEMU's user-mode emulation: which there are, what runs on them, and who looks.

Their fixtures and libraries come from scripts/build_machines.sh.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import pytest
from lldb_door import LLDBS
from made_once import Looks, each_look
from platforms import BUILD, Platform

GDB_NAME = "gdb-multiarch"
CORE, STUB = "qemu-core", "stub"


@dataclass(frozen=True)
class Machine:
    """A processor with a release of glibc."""

    id: str
    release: str
    machine: str
    """By the name that Target.machine has for it."""
    emulator: str
    triple: str
    byte_order: str = "little"
    pointer_bytes: int = 8
    page: int = 4096
    dumps: bool = True
    """QEMU 7.2 writes no core of a riscv64 guest."""
    static: bool = False
    only: tuple[str, ...] = ()
    """The scenarios that it is given; none named: all."""

    @property
    def platform(self) -> Platform:
        return Platform(self.folder.name, self.release, self.machine)

    @property
    def folder(self) -> Path:
        # pages of another size make no other programs
        return BUILD / self.id.replace("-64k", "")

    @property
    def root(self) -> Path:
        """What the guest finds at /."""
        return self.folder / "libc" / "root"

    @property
    def debug(self) -> Path:
        return self.root / "usr" / "lib" / "debug"


MACHINES = (
    Machine(
        "aarch64",
        "2.36",
        "aarch64",
        "qemu-aarch64",
        "aarch64-linux-gnu",
        only=("hoard", "mmapped", "many_heaps", "tcache-tls"),
    ),
    Machine("aarch64-2.43", "2.43", "aarch64", "qemu-aarch64", "aarch64-linux-gnu", only=("hoard", "bins", "tcache")),
    Machine(
        "arm",
        "2.36",
        "arm",
        "qemu-arm",
        "arm-linux-gnueabihf",
        pointer_bytes=4,
        only=("hoard", "bins", "tcache", "tcache-tls", "mmapped", "fastbins"),
    ),
    Machine(
        "ppc64",
        "2.36",
        "ppc64",
        "qemu-ppc64le",
        "powerpc64le-linux-gnu",
        only=("hoard", "tcache", "tcache-tls", "pinned"),
    ),
    # what QEMU maps for ld.so in pages of this size it neither dumps nor serves whole: only a static program is
    Machine("ppc64-64k", "2.36", "ppc64", "qemu-ppc64le", "powerpc64le-linux-gnu", page=65536, static=True),
    Machine(
        "riscv64",
        "2.41",
        "riscv64",
        "qemu-riscv64",
        "riscv64-linux-gnu",
        dumps=False,
        only=("hoard", "tcache", "tcache-tls", "many_heaps"),
    ),
    Machine("s390x", "2.36", "s390x", "qemu-s390x", "s390x-linux-gnu", byte_order="big"),
)


@dataclass(frozen=True)
class Scenario:
    """A fixture with arguments, small: emulation is slow."""

    name: str
    fixture: str
    arguments: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


# under an emulator the fixture cannot run itself again with this
NO_TCACHE = (("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"),)
SCENARIOS = (
    Scenario("hoard", "hoard", ("3", "6")),
    Scenario("bins", "bins"),
    Scenario("tcache", "tcache"),
    Scenario("tcache-tls", "tcache.tls"),
    Scenario("mmapped", "mmapped"),
    Scenario("many_heaps", "many_heaps", ("3", "plain")),
    Scenario("pinned", "pinned", ("both", "4")),
    Scenario("fastbins", "fastbins", env=NO_TCACHE),
)
STATIC = (
    Scenario("hoard-static", "hoard.static", ("3", "6")),
    Scenario("bins-static", "bins.static"),
    Scenario("pinned-static", "pinned.static", ("both", "4")),
)


@dataclass(frozen=True)
class View:
    """One look: which machine's heap, through which door, at what, and with which help."""

    on: Machine
    scenario: Scenario
    door: str
    image: str
    """"qemu-core": the guest's core that QEMU wrote; "stub": the living guest, over QEMU's GDB stub."""
    symbols: bool

    @property
    def release(self) -> str:
        return self.on.release

    @property
    def machine(self) -> str:
        return self.on.machine

    @property
    def id(self) -> str:
        help = "symbols" if self.symbols else "stripped"
        return f"{self.on.id}-{self.scenario.name}-{self.image}-{self.door}-{help}"


def subjects() -> Iterator[tuple[Machine, Scenario]]:
    for machine in MACHINES:
        for scenario in STATIC if machine.static else SCENARIOS:
            if not machine.only or scenario.name in machine.only:
                yield machine, scenario


@cache
def views() -> Sequence[View]:
    """Each subject over its stub, and its core through each door, now with symbols and now without."""
    taken = []
    for number, (machine, scenario) in enumerate(subjects()):
        taken += [View(machine, scenario, GDB_NAME, STUB, symbols) for symbols in (True, False)]
        if machine.dumps:
            for turn, door in enumerate((GDB_NAME, *(lldb.name for lldb in LLDBS))):
                taken.append(View(machine, scenario, door, CORE, (number + turn) % 2 == 0))
            # the core names no files, so that the shell finds no symbols
            taken.append(View(machine, scenario, "shell", CORE, False))
    return taken


def looked_at(
    *, images: Sequence[str] = (CORE, STUB), only: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Any]:
    """Makes a test of one `sight` a test for each image of each subject, which judges all looks at it; one worker has
    all images of one subject, which then lives once."""
    images_of: dict[tuple[Machine, Scenario, str], list[View]] = {}
    for view in views():
        if view.image in images and (not only or view.scenario.name in only):
            images_of.setdefault((view.on, view.scenario, view.image), []).append(view)
    parameters = []
    for (machine, scenario, image), chosen in images_of.items():
        looks = Looks(f"{machine.id}-{scenario.name}-{image}", tuple(chosen))
        parameters.append(pytest.param(looks, id=looks.id, marks=one_worker(machine, scenario)))
    return lambda test: pytest.mark.parametrize("sight", parameters, indirect=True)(each_look(test))


def one_worker(machine: Machine, scenario: Scenario) -> pytest.MarkDecorator:
    return pytest.mark.xdist_group(f"{machine.id} {scenario.name}")
