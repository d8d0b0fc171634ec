"""LLDB in batch mode, one door for each version that is supported; several of them stand side by side."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

from lifetimes import lasting_folder
from looks import (
    HERE,
    ROOT,
    Asked,
    Core,
    Debugger,
    Image,
    Live,
    Outcome,
    give_up,
    indexes,
    run,
    stripped,
)
from platforms import libc_of
from terminal import Terminal

LLDB_ARENA_PY = ROOT / "lldb" / "arena.py"
LLDB_LOAD = ("-o", f"command script import {LLDB_ARENA_PY}")
BUILD_IDS = Path("/usr/lib/debug/.build-id")


class Lldb(Debugger):
    load = LLDB_LOAD
    driver = ("-o", f"command script import {HERE / 'drive_lldb.py'}")
    calculates = ("-o", "script print(6 * 7)")

    def __init__(self, version: int) -> None:
        self.version = version
        self.name = f"lldb-{version}"
        # Debian's package: its own `lldb -P` names a folder that does not exist
        llvm_14 = {"PYTHONPATH": "/usr/lib/llvm-14/lib/python3.11/dist-packages"}
        self.variables = llvm_14 if version == 14 else {}
        self.own_words = {"nonsense": ["nonsense", "valid"]}
        if version >= 22:
            self.own_words["nonsense --json"] = ["nonsense", "valid"]
        if version >= 19:
            # it has been told the options, and reads them itself
            self.own_words.update(
                {
                    "arenas --limit": ["argument"],
                    "arenas --nonsense": ["unknown", "option"],
                    "arenas surplus": ["arenas", "any arguments"],
                }
            )

    def run_each(self, asked: Sequence[Asked], symbols: bool = True) -> list[list[Outcome]]:
        if self.version < 17 and len(asked) > 1:
            # it tells nobody the name of the core that is open, and of two of one process the other serves as well
            return [self.run(image, commands, symbols) for image, commands in asked]
        return super().run_each(asked, symbols)

    def following(self, core: Core) -> list[str]:
        # the driver is itself a command, whose target is that of all commands in it until there is none
        return [f"target create --core {core.path} {core.program}", "target delete 0"]

    def do(self, image: Image, words: Sequence[str], symbols: bool = True, **how: Any) -> list[Outcome]:
        # it looks in both places whatever its settings: for debug information always, for the program at an attach
        hide = {} if symbols else {BUILD_IDS: empty_folder(), image.program: stripped(image.program)}
        return super().do(image, words, symbols, hide=hide, **how)

    def poke(self, address: int, value: int) -> str:
        """The command that writes eight bytes."""
        return f"memory write -s 8 {address:#x} {value:#x}"

    def look_at(self, image: Image, symbols: bool = True) -> list[str]:
        libc = libc_of(image.program) if symbols else None
        find = ["-O", f"settings append target.debug-file-search-paths {libc.debug}"] if libc else []
        if self.version >= 20:
            # threads that load modules beside each other now and then wait for each other's lock for good: seen where
            # LLDB 23 opened a core. Ubuntu's LLDB 20 has no such setting, LLDB 14 no -e to pass over it
            find += ["-O", "settings set -e target.parallel-module-load false"]
        if isinstance(image, Live):
            return [*find, "-p", str(image.pid)]
        return [*find, "-c", str(image.path), str(image.program)]

    def start(
        self,
        arguments: Sequence[str],
        variables: Optional[dict[str, str]] = None,
        hide: Optional[Mapping[Path, Path]] = None,
        **how: Any,
    ) -> subprocess.CompletedProcess[str]:
        """lldb --batch with these arguments; instead of what `hide` names it sees what is named beside that. `how` is
        run's."""
        environment = {**self.variables, **(variables or {})}
        places = [word for word in arguments if "debug-file-search-paths" in word]
        settings = [
            f"symbols.lldb-index-cache-path {indexes(bool(hide), *places)}",
            # LLDB 14 finds fewer names in what it kept
            f"symbols.enable-lldb-index-cache {'true' if self.version > 14 else 'false'}",
        ]
        first = [word for setting in settings for word in ("-O", f"settings set {setting}")]
        return run(seeing([self.name, "-x", "-b", *first, *arguments], hide), environment, **how)

    def at_terminal(self, *arguments: object) -> Terminal:
        return Terminal([self.name, "-x", *arguments], variables=self.variables)


def seeing(command: Sequence[str], hide: Optional[Mapping[Path, Path]]) -> Sequence[str]:
    """The command that instead of what `hide` names sees what is named beside that; it takes root."""
    mounts = [f"mount --bind {other} {path};" for path, other in (hide or {}).items() if path.exists()]
    return ["unshare", "--mount", "sh", "-ec", " ".join([*mounts, 'exec "$@"']), "sh", *command] if mounts else command


@cache
def empty_folder() -> Path:
    """To be mounted over what is to be hidden."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        give_up("hiding symbols needs root: it is done by mounts")
    return lasting_folder("arenascope-no-symbols-")


def _newest() -> int:
    """The highest that is installed: distributions go on."""
    found = [int(path.name[5:]) for path in Path("/usr/bin").glob("lldb-[0-9]*") if path.name[5:].isdigit()]
    return max([19, *found])


NEWEST_LLDB = Lldb(_newest())
EVERY_LLDB = (Lldb(14), Lldb(16), NEWEST_LLDB)
LLDBS = EVERY_LLDB[1:]
"""The two that are checked against truth in every scenario that is theirs; the oldest is checked against them."""
