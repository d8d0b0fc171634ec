"""Who stands behind which seam. Nothing runs this: mypy holds each to its Protocol (`make check`)."""

from __future__ import annotations

from fake_door import FakeDoor
from fake_target import FakeTarget
from gdb.heap_calls import GdbController
from gdb.heap_commands import GdbDoor, _Captured
from gdb.heap_target import GdbTarget
from lldb.heap_calls import LldbController
from lldb.heap_commands import LldbDoor
from lldb.heap_target import LldbTarget

from arenascope.base.progress_bar import Meter, Progress, Unseen
from arenascope.cli.shell import ShellDoor
from arenascope.cli.shell_calls import ShellController
from arenascope.commands.framework.command import Controller, Door
from arenascope.sources.core.holes import DenseResidency, HoleResidency
from arenascope.sources.live.kept_process import KeptResidency
from arenascope.sources.live.live_target import ProcessTarget
from arenascope.sources.live.pagemap import PagemapResidency
from arenascope.sources.shell_target import ShellTarget
from arenascope.sources.target import Residency, Target
from arenascope.sources.type_source import TypeSource
from arenascope.sources.types_by_engine import TypesByEngine

TARGETS: list[type[Target]] = [GdbTarget, LldbTarget, ProcessTarget, ShellTarget, FakeTarget]
DOORS: list[type[Door]] = [GdbDoor, LldbDoor, ShellDoor, _Captured, FakeDoor]
RESIDENCIES: list[type[Residency]] = [PagemapResidency, KeptResidency, HoleResidency, DenseResidency]
CONTROLLERS: list[type[Controller]] = [GdbController, LldbController, ShellController]
METERS: list[type[Meter]] = [Unseen, Progress]
TYPES: list[type[TypeSource]] = [TypesByEngine]
