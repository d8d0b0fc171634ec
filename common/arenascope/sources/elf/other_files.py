"""Modules of which no file is here that is provably theirs: what they call things is not known then."""

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
    """Which they are; None where there are none."""
    unproven = [*unproven_modules(target)]
    if not unproven:
        return None
    names = sorted({os.path.basename(module.name) for module in unproven})
    said = {"named": first_few(names), "door": target.door, "kind": target.kind, **_tried(target, unproven)}
    return Statement(OTHER_FILES, {"modules": len(names)}, said)


def _tried(target: Target, modules: Sequence[Module]) -> dict[str, str]:
    """Below a sysroot: a file of another build, or where the first one's is not."""
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
    """Of a module whose build-id cannot be read nothing is proved."""
    modules = Modules(target, programs_of(target.regions()))
    for module in modules.all:
        inside = build_id_in_memory(target.read, module.base)
        loaded = target.loaded_build_id(module.regions[0])
        if inside is not None and (differ(inside, loaded) or (loaded is None and modules.file_of(module) is None)):
            yield module
