"""What `save` does: an image into a file, and where that is for others' eyes, only malloc's own words of it."""

from __future__ import annotations

import os
from typing import Callable, Optional

from ...base.whole_file import nameless_file
from ...present.shared_text.progress_bar import Progress
from ...session.session import Session
from ...sources.core.core_image import CoreImage
from ...sources.core.resaving import save_core

# all that it takes is loaded before a process is held
from ...sources.live.saving import ProcessCopy
from ...sources.shell_target import ShellTarget
from ...sources.target import Saved, Target
from ..redact.redaction import kept


def save(target: Target, path: str, release: Callable[[], float], redact: bool) -> Optional[Saved]:
    """`release` is called once all of a process was read. None where the image does not lie on this machine."""
    if not redact:
        return target.image.save(path, target.register_sets(), release)
    if isinstance(target.image, CoreImage):
        return _redact(target, target.image, path)
    # what is kept takes a walk over every chunk: the process is let go first; this copy never has a name
    with nameless_file(os.path.dirname(path) or ".") as file:
        saved = target.image.save(file, target.register_sets(), release)
        if saved is None:
            return None
        core = ProcessCopy(f"/proc/self/fd/{file}", target)
    with core:
        redacted = _redact(target, core, path)
    return redacted._replace(held=saved.held, lost=saved.lost)


def _redact(target: Target, core: CoreImage, path: str) -> Saved:
    """`core` is what `target` shows: its symbols are where the user said that they are."""
    symbols = target.symbols_from if isinstance(target, ShellTarget) else ()
    words = kept(Session(ShellTarget(core, *symbols), meter=Progress), core.random_bytes())
    return save_core(core, path, core.residency(), core.mapping_use(), kept=words)
