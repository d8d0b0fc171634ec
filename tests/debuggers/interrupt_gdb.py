"""Runs inside GDB: `heap trim --apply` at one instruction of malloc's after another."""

import os
import sys

import gdb

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from every_instruction import APPLY, FUNCTIONS, rounds, tell, work_of


class GdbRounds:
    def places(self):
        architecture = gdb.selected_frame().architecture()
        for name in FUNCTIONS:
            try:
                start = int(gdb.parse_and_eval(f"(long) &{name}"))
            except gdb.error:
                continue  # this release has none of that name, or only copies within others
            block = gdb.block_for_pc(start)
            while block.function is None:
                block = block.superblock
            yield from ((each["addr"], work_of(name)) for each in architecture.disassemble(start, block.end - 1))

    def stand(self, address, work):
        gdb.execute(f"tbreak *{address:#x}", to_string=True)
        gdb.execute("break reply", to_string=True)
        tell(gdb.selected_inferior().pid, work)
        reached = self._go() == address
        gdb.execute("delete", to_string=True)
        # and not where a signal stopped it
        assert reached or gdb.newest_frame().name() == "reply", gdb.newest_frame().name()
        return reached

    def park(self):
        gdb.execute("tbreak park", to_string=True)
        gdb.execute("signal SIGUSR1", to_string=True)

    def let_go(self):
        gdb.execute("set var go_on = 1", to_string=True)

    def apply(self):
        try:
            gdb.execute(APPLY, to_string=True)
        except gdb.error as error:
            return str(error)
        return None

    def finish(self):
        """To the end of the work: a parked handler replies, too."""
        gdb.execute("break reply", to_string=True)
        self._go()
        while gdb.newest_frame().older().name() == "park":
            self._go()
        gdb.execute("delete", to_string=True)

    def _go(self):
        gdb.execute("continue", to_string=True)
        return gdb.newest_frame().pc()


rounds(GdbRounds(), 0.02)
