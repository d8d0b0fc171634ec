"""Modules of which no file is here that is provably theirs: what they call things is not known then."""

from __future__ import annotations

import os
from typing import Iterator, Optional

from ...base.model import OTHER_FILES, Statement
from ...base.printable import first_few
from ..image_target import ImageTarget
from ..target import Target
from .address_names import programs_of
from .elf_file import build_id_in_memory, differ
from .modules import Module, Modules


def other_files(target: Target) -> Optional[Statement]:
    """Which they are; None where there are none. Of a module whose build-id cannot be read nothing is proved."""
    known = {os.path.basename(module.name): module for module in _modules(target)}
    if not known:
        return None
    names = sorted(known)
    said = {"named": first_few(names), "door": target.door, "kind": target.kind, **_tried(target, known[names[0]])}
    return Statement(OTHER_FILES, {"modules": len(names)}, said)


def _tried(target: Target, module: Module) -> dict[str, str]:
    """Below a sysroot: where no file is, or one of another build."""
    region = module.regions[0]
    if not isinstance(target, ImageTarget):
        return {}
    place = target.place_below_sysroot(region)
    return {} if place is None else {"unlike" if target.local_paths(region) else "absent": place}


def _modules(target: Target) -> Iterator[Module]:
    modules = Modules(target, programs_of(target.regions()))
    for module in modules.all:
        inside = build_id_in_memory(target.read, module.base)
        loaded = target.loaded_build_id(module.regions[0])
        if inside is not None and (differ(inside, loaded) or (loaded is None and modules.file_of(module) is None)):
            yield module
