"""The shell door beside the debuggers: every command in one run of its main(), as a driver script calls it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Mapping, Optional, Sequence

from lldb_door import BUILD_IDS, empty_folder
from looks import BREAKDOWNS, HERE, TIMEOUT, Finished, Image, Live, Outcome, plain_environment, read_results, stripped


class Shell:
    """arenascope COMMAND PID|CORE."""

    name = "shell"
    own_words: Mapping[str, Sequence[str]] = {}

    def available(self) -> Optional[str]:
        return None

    def run(self, image: Image, commands: Sequence[str], symbols: bool = True) -> list[Outcome]:
        subject = str(image.pid if isinstance(image, Live) else image.path)
        # a debug file is looked for under /usr/lib/debug, a static program's symbols in the program itself
        hide = {} if symbols else {BUILD_IDS: empty_folder(), image.program: stripped(image.program)}
        steps = [{"do": command, "on": subject} for command in commands]
        with tempfile.TemporaryDirectory(prefix="arenascope-shell-") as folder:
            results = Path(folder) / "results"
            variables = {"ARENASCOPE_STEPS": json.dumps(steps), "ARENASCOPE_RESULTS": str(results)}
            command = [sys.executable, str(HERE / "drive_shell.py")]
            mounts = [f"mount --bind {other} {path};" for path, other in hide.items() if path.exists()]
            if mounts:
                command = ["unshare", "--mount", "sh", "-ec", " ".join([*mounts, 'exec "$@"']), "sh", *command]
            start = time.monotonic()
            done = subprocess.run(command, env=plain_environment(variables), capture_output=True, text=True,
                                  timeout=TIMEOUT, stdin=subprocess.DEVNULL)
            finished = Finished(done.returncode, done.stdout, done.stderr, time.monotonic() - start)
            assert not any(word in finished.all for word in BREAKDOWNS), f"{command}\n{finished.all}"
            return read_results(results, steps, finished)


SHELL = Shell()
