"""What `save` does: an image into a file, and where that is for others' eyes, only malloc's own words of it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Callable, Optional

from ...base.whole_file import nameless_file
from ...present.shared_text.progress_bar import Progress
from ...session.session import Session
from ...sources.core.copy_in_memory import NoRoomInMemory
from ...sources.core.core_image import CoreImage
from ...sources.core.saving import save_core

# all that it takes is loaded before a process is held
from ...sources.live.process import ProcessImage
from ...sources.live.saving import ProcessCopy, copy_process
from ...sources.shell_target import ShellTarget
from ...sources.target import SavedCore, Target
from ..redact.redaction import kept


def save(target: Target, path: str, release: Callable[[], float], redact: bool) -> Optional[SavedCore]:
    """`release` is called once all of a process was read. None where the image does not lie on this machine."""
    if not redact:
        return target.image.save(path, target.register_sets(), release)
    if isinstance(target.image, CoreImage):
        return _redact(target, target.image, path)
    # what is kept takes a walk over every chunk: the process is let go first; this copy never has a name
    image = target.image
    if isinstance(image, ProcessImage) and image.room is not None:
        room, image.room = image.room, None
        with suppress(NoRoomInMemory):
            core, saved = copy_process(image, target, room, registers=target.register_sets(), release=release)
            return _redact_copy(target, core, saved, path)
    with nameless_file(os.path.dirname(path) or ".") as file:
        written = image.save(file, target.register_sets(), release)
        if written is None:
            return None
        return _redact_copy(target, ProcessCopy(f"/proc/self/fd/{file}", target, written.lost), written, path)


def _redact_copy(target: Target, core: CoreImage, saved: SavedCore, path: str) -> SavedCore:
    return _redact(target, core, path)._replace(held=saved.held, lost=saved.lost)


def _redact(target: Target, core: CoreImage, path: str) -> SavedCore:
    """`core` is what `target` shows: its symbols are where the user said that they are."""
    symbols = target.symbols_from if isinstance(target, ShellTarget) else ()
    with ShellTarget(core, *symbols) as shown:
        words = kept(Session(shown, meter=Progress), core.random_bytes())
        return save_core(core, path, core.residency(), core.mapping_use(), kept=words)
