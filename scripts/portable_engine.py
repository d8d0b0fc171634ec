"""Builds the engine that goes into a wheel or the zipapp."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Optional

SCRIPT = Path(__file__).with_name("engine.sh")
CPUS = ("x86_64", "aarch64")


def can_build() -> bool:
    """Tells whether there is a cargo, and an engine is wanted."""
    return os.environ.get("ARENASCOPE_ENGINE") != "none" and _run("cargo").returncode == 0


def build(cpu: str) -> Optional[Path]:
    """Returns the engine for such processors; None for another's than this machine's if this cargo cannot build it."""
    if _run("has", cpu).returncode:
        return None
    done = _run("portable", cpu)
    if done.returncode:
        sys.exit(done.returncode)
    return Path(done.stdout.split("\n")[-2])


def build_here() -> None:
    """Builds a checkout's own."""
    if done := _run("build").returncode:
        sys.exit(done)


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    # cargo-zigbuild may be installed beside this Python
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    quiet = subprocess.DEVNULL if words == ("cargo",) else None
    command = [str(SCRIPT), *words]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=quiet, text=True, env={**os.environ, "PATH": path})


def platform_tag(library: Path, cpu: str) -> str:
    """Returns a wheel's tag: which glibc it needs at least, by the versions of the symbols that it takes from it. Below
    2.17, the oldest that indexes have wheels for, nobody looks."""
    needed = {int(each) for each in re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", library.read_bytes())}
    return f"manylinux_2_{max(17, *needed)}_{cpu}" if needed else f"linux_{cpu}"
