"""What binutils says of an ELF file, and a source that has symbols of every kind."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from looks import give_up

SOURCE = """
__thread int slot[3] = {1};
__thread int other;
int tail = 7, long_tail[2] = {8};
static volatile int hidden = 9;
int function(void) { return hidden + slot[0] + other; }
"""


def tool(*arguments: str) -> str:
    if not shutil.which(arguments[0]):
        give_up(f"{arguments[0]} is not installed")
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def nm(path: Path, *flags: str) -> dict[str, tuple[int, int]]:
    """name: (value, size)."""
    rows = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) \w ([^\s@]+)", tool("nm", "-S", *flags, str(path)), re.MULTILINE)
    return {name: (int(value, 16), int(size, 16)) for value, size, name in rows}


def readelf_symbols(path: str, names: set[str]) -> dict[str, tuple[int, int, str]]:
    """name: (value, size, type)."""
    found = {}
    for line in tool("readelf", "-sW", path).splitlines():
        words = line.split()
        if len(words) >= 8 and words[7].split("@")[0] in names and words[6] != "UND":
            found[words[7].split("@")[0]] = (int(words[1], 16), int(words[2], 0), words[3])
    return found
