"""A live process as a Target, for the shell door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence

from ..elf.address_names import AddressNames
from ..elf.registers import thread_from_registers
from ..shell_target import ShellTarget
from ..target import RegisterSets, ThreadInfo
from .process import ProcessImage

if TYPE_CHECKING:
    from .process_hold import Freeze


class ProcessTarget(ShellTarget):
    """A live process, which runs on until it is held."""

    def __init__(
        self,
        process: ProcessImage,
        folders: Sequence[str],
        symbols: bool,
        sysroot: Optional[str] = None,
        declared: Optional[bool] = False,
    ) -> None:
        super().__init__(process, folders, symbols, sysroot, declared=declared)
        self._process = process
        self.image: ProcessImage = process
        self._freeze: Optional[Freeze] = None
        self._threads: Optional[dict[int, ThreadInfo]] = None
        self._elsewhere: set[int] = set()
        """Threads in `_threads` that have run since."""

    def look(self, freeze: Optional[Freeze]) -> None:
        """Starts a look, with the process held by `freeze` or running on: symbols stay, mappings are read again.

        The image stays, too: if it were another program's by now, its memory would say so.
        """
        self._regions = self._threads = None
        AddressNames.__init__(self, self._folders, self.sysroot)
        self._freeze = freeze
        if freeze is not None:
            # debug information takes seconds to read: that is done for a copy
            self._reads_types = False
            freeze.on_end(self._process.give_up)

    def heed(self, freeze: Freeze) -> None:
        """Makes reads raise HoldOver once, when the process was held for as long as it may be. What was read until then
        is the answer, and part of the time is kept for everything else that it needs."""
        read, fill = self.read, self.fill

        def heed() -> None:
            if self.image.cut is None and freeze.is_over():
                self.image.cut = freeze.cut
                raise freeze.over()

        def read_on(address: int, size: int) -> bytes:
            heed()
            return read(address, size)

        def fill_on(address: int, block: memoryview) -> int:
            heed()
            return fill(address, block)

        self.read, self.fill = read_on, fill_on
        self.stop_if_asked = heed

    def moved(self, tid: Optional[int] = None) -> None:
        """Records that the process ran for a while, or only this thread of it: its mappings changed, and its threads
        moved."""
        self._regions = None
        if tid is None:
            self._threads = None
        else:
            self._elsewhere.add(tid)

    def register_sets(self) -> Sequence[RegisterSets]:
        return self._freeze.register_sets(every=True) if self._freeze is not None else ()

    def threads(self) -> Sequence[ThreadInfo]:
        if self._threads is None:
            self._threads = {thread.tid: thread for thread in self._read_threads()}
        elif self._elsewhere and self._freeze is not None:
            moved = self._infos(self._freeze.register_sets(sorted(self._elsewhere)))
            self._threads.update((each.tid, each._replace(name=self._threads[each.tid].name)) for each in moved)
        self._elsewhere = set()
        return list(self._threads.values())

    def _read_threads(self) -> Sequence[ThreadInfo]:
        sets = self._freeze.register_sets() if self._freeze is not None else []
        if not sets:
            return super().threads()
        held = {each.tid: each for each in self._infos(sets)}
        # a thread that is not held has exited: only its name is left
        names = self._process.thread_names()
        return [held.get(tid, ThreadInfo(tid))._replace(name=name) for tid, name in names.items()]

    def _infos(self, sets: Sequence[RegisterSets]) -> list[ThreadInfo]:
        image = self._process
        return [thread_from_registers(image.machine, image.pointer_size, image.byte_order, each) for each in sets]
