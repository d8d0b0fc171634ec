"""Does the steps that ARENASCOPE_STEPS lists through the shell door's main(), and writes what came of each."""

import contextlib
import io
import json
import os
import shlex
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "common"))

from arenascope.cli.main import main


def perform(step):
    said, complained = io.StringIO(), io.StringIO()
    name, *words = shlex.split(step["do"])
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        # a command that writes a file takes that first
        status = main([name, *words, step["on"]] if name in ("save", "snapshot") else [name, step["on"], *words])
    result = {"text": said.getvalue(), "value": status}
    if status == 2:
        result["error"] = complained.getvalue().strip()
    return result


with open(os.environ["ARENASCOPE_RESULTS"], "w") as results:
    for each in json.loads(os.environ["ARENASCOPE_STEPS"]):
        start = time.monotonic()
        found = perform(each)
        found["seconds"] = time.monotonic() - start
        results.write(json.dumps(found) + "\n")
