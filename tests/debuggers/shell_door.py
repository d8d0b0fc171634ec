"""The shell door beside the debuggers: every command in one run of its main(), as a driver script calls it."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Mapping, Optional, Sequence

from looks import HERE, Asked, Image, Live, Outcome, read_results, run
from platforms import libc_of


class Shell:
    """arenascope COMMAND PID|CORE."""

    name = "shell"
    own_words: Mapping[str, Sequence[str]] = {}

    def available(self) -> Optional[str]:
        return None

    def run(self, image: Image, commands: Sequence[str], symbols: bool = True) -> list[Outcome]:
        return self.run_each([(image, commands)], symbols)[0]

    def run_each(self, asked: Sequence[Asked], symbols: bool = True) -> list[list[Outcome]]:
        libc = libc_of(asked[0][0].program)
        where = f" --debug-dir {libc.debug}" if libc else ""
        options = where if symbols else " --no-symbols"
        steps = [
            {"do": command + options, "on": str(image.pid if isinstance(image, Live) else image.path)}
            for image, commands in asked
            for command in commands
        ]
        with tempfile.TemporaryDirectory(prefix="arenascope-shell-") as folder:
            results = Path(folder) / "results"
            variables = {"ARENASCOPE_STEPS": json.dumps(steps), "ARENASCOPE_RESULTS": str(results)}
            command = [sys.executable, str(HERE / "drive_shell.py")]
            finished = run(command, variables)
            outcomes = iter(read_results(results, steps, finished))
            return [
                [replace(outcome, command=command) for command, outcome in zip(commands, outcomes)]
                for _, commands in asked
            ]


SHELL = Shell()
