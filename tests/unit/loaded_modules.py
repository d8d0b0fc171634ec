"""Which modules a new Python has loaded in the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMMON = Path(__file__).resolve().parents[2] / "common"
FEW_NEED = {
    "concurrent.futures",
    "ctypes",
    "dataclasses",
    "hashlib",
    "inspect",
    "multiprocessing",
    "queue",
    "shutil",
    "socket",
    "subprocess",
    "tabulate",
    "tempfile",
    "threading",
    "arenascope.cli.several_subjects",
    "arenascope.cli.watch",
    "arenascope.sources.elf.debug_entries",
    "arenascope.sources.live.process",
    "arenascope.sources.types_by_gdb",
}
"""Each takes 1 to 10 of the 40 ms in which the shell starts; a dataclass takes half a millisecond for itself."""


def loaded_after(code: str, *words: str) -> set[str]:
    """After this code, with these words as its arguments: without site-packages, which may load modules itself."""
    done = subprocess.run(
        [
            *(sys.executable, "-I", "-S", "-c"),
            f"import sys; sys.path.append({str(COMMON)!r})\n{code}\nprint(*sys.modules, file=sys.stderr)",
            *words,
        ],
        check=True,
        text=True,
        capture_output=True,
        timeout=120,
    )
    return set(done.stderr.splitlines()[-1].split())


def loaded_by_shell(*words: str) -> set[str]:
    """By the shell's door, which succeeds."""
    return loaded_after("from arenascope.cli.main import main\nassert main(sys.argv[1:]) == 0", *words)
