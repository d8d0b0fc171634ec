"""What blocks are where the highest byte comes first: classes by RTTI, containers, links, text, as on this machine."""

from __future__ import annotations

from collections import Counter

from emulated import Emulated
from looks import give_up
from machine_table import MACHINES, Scenario
from planted import CLAIMING, MANY, is_right, kinds_by_block, planted_by

from arenascope.cli.shell import How, ShellDoor
from arenascope.session.session import Session


def test_blocks_of_a_big_endian_machine() -> None:
    machine = next(each for each in MACHINES if each.byte_order == "big")
    # static, as QEMU's cores have no names of libraries; stripped
    if not (machine.folder / "kinds.static").exists():
        give_up(f"{machine.triple}-g++ is not installed")
    with Emulated(machine, Scenario("kinds", "kinds.static"), stub=False) as subject:
        planted = planted_by(subject.folder / "truth")
        found = kinds_by_block(Session(ShellDoor(str(subject.guest_core()), How("none")).target()))
    assert len(planted) > 30 * MANY
    assert set(planted) <= set(found)
    wrong = Counter((what, found[block]) for block, what in planted.items() if not is_right(what, found[block]))
    assert not [each for each in wrong if each[1].kind in CLAIMING]
    assert sum(wrong.values()) <= len(planted) // 20, wrong
