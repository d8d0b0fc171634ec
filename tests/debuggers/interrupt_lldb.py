"""Runs inside LLDB: `heap trim --apply` at one instruction of malloc's after another."""

import os
import signal
import struct
import sys

import lldb

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from every_instruction import APPLY, FUNCTIONS, rounds, tell, work_of

PREFIXES = ("lock", "rep", "repe", "repne", "notrack", "data16", "addr32", "xacquire", "xrelease")


class LldbRounds:
    def __init__(self, debugger):
        self.debugger = debugger
        self.target = debugger.GetSelectedTarget()
        self.process = self.target.GetProcess()
        debugger.SetAsync(False)
        self._do("process handle SIGUSR1 --stop false --notify false --pass true")

    def places(self):
        for name in FUNCTIONS:
            # the dynamic linker has a malloc of its own
            found = [
                each
                for each in self.target.FindFunctions(name, lldb.eFunctionNameTypeFull)
                if each.GetModule().GetFileSpec().GetFilename() == "libc.so.6"
            ]
            if not found:
                continue  # this release has none of that name, or only copies within others
            before = ""
            for instruction in found[0].GetFunction().GetInstructions(self.target):
                # LLDB lists a prefix by itself: a breakpoint behind `lock` would make an instruction that there is not
                if before not in PREFIXES:
                    yield instruction.GetAddress().GetLoadAddress(self.target), work_of(name)
                before = instruction.GetMnemonic(self.target)

    def stand(self, address, work):
        self.target.BreakpointCreateByAddress(address)
        self.target.BreakpointCreateByName("reply")
        tell(self.process.GetProcessID(), work)
        reached = self._go().GetPC() == address
        self.target.DeleteAllBreakpoints()
        return reached

    def park(self):
        self.target.BreakpointCreateByName("park")
        # comes before the next instruction
        os.kill(self.process.GetProcessID(), signal.SIGUSR1)
        where = self._go().GetFunctionName()
        self.target.DeleteAllBreakpoints()
        assert where == "park", where

    def let_go(self):
        address = self.target.FindFirstGlobalVariable("go_on").GetLoadAddress()
        error = lldb.SBError()
        self.process.WriteMemory(address, struct.pack("=i", 1), error)
        assert error.Success(), error

    def apply(self):
        return self._do(APPLY)

    def finish(self):
        """To the end of the work: a parked handler replies, too."""
        self.target.BreakpointCreateByName("reply")
        self._go()
        while self._thread().GetFrameAtIndex(1).GetFunctionName() == "park":
            self._go()
        self.target.DeleteAllBreakpoints()

    def _go(self):
        self.process.Continue()
        state = self.process.GetState()
        assert state == lldb.eStateStopped, f"{lldb.SBDebugger.StateAsCString(state)}: {self.process.GetExitStatus()}"
        reason = self._thread().GetStopReason()
        assert reason == lldb.eStopReasonBreakpoint, self._thread().GetStopDescription(200)
        return self._thread().GetFrameAtIndex(0)

    def _thread(self):
        return self.process.GetThreadAtIndex(0)

    def _do(self, line):
        """Its error, if it has one."""
        result = lldb.SBCommandReturnObject()
        self.debugger.GetCommandInterpreter().HandleCommand(line, result)
        return None if result.Succeeded() else result.GetError() or "failed"


def __lldb_init_module(debugger, internal_dict):
    rounds(LldbRounds(debugger), 0.3)
