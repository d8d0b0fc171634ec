"""Finds modules without a local file that is provably theirs: their symbols are unknown then."""

from __future__ import annotations

import os
from typing import Iterator, Optional, Sequence

from ...base.model import OTHER_FILES, Statement
from ...base.printable import first_few
from ..source import ImageTarget
from ..target import Target
from .address_names import programs_of
from .elf_file import build_id_in_memory, differ
from .modules import Module, Modules


def other_files(target: Target) -> Optional[Statement]:
    """Reports which they are; None if there are none."""
    unproven = [*unproven_modules(target)]
    if not unproven:
        return None
    names = sorted({os.path.basename(module.name) for module in unproven})
    said = {"named": first_few(names), "door": target.door, "kind": target.kind, **_tried(target, unproven)}
    return Statement(OTHER_FILES, {"modules": len(names)}, said)


def _tried(target: Target, modules: Sequence[Module]) -> dict[str, str]:
    """Returns what was tried: below a sysroot, a file of another build, or the first path that was missing."""
    tried: dict[str, str] = {}
    if not isinstance(target, ImageTarget):
        return tried
    for module in modules:
        place = target.place_below_sysroot(module.regions[0])
        if place is not None and target.local_paths(module.regions[0]):
            return {"unlike": place}
        tried = tried or ({} if place is None else {"absent": place})
    return tried


def unproven_modules(target: Target) -> Iterator[Module]:
    """Returns the modules whose files are not proven; one whose build-id cannot be read does not count."""
    modules = Modules(target, programs_of(target.regions()))
    for module in modules.all:
        inside = build_id_in_memory(target.read, module.base)
        loaded = target.loaded_build_id(module.regions[0])
        if inside is not None and (differ(inside, loaded) or (loaded is None and modules.file_of(module) is None)):
            yield module
