"""Names of the parts of resident memory."""

from __future__ import annotations

from ...analysis.report import OF_ARENAS, ResidentPicture
from ..shared_text.text import Style

LABELS = {
    "live": "in use, with malloc's bookkeeping",
    "mmapped": "in use, in blocks with a mapping of their own",
    "tcache": "free, kept in thread caches",
    "returnable": "free, malloc_trim returns it",
    "thread_tops": "free, tops of thread arenas: malloc_trim leaves them",
    "main_top": "free, what malloc_trim leaves of the main arena's top",
    "scraps": "free, stranded: shares its pages with blocks in use",
    "unread": "arenas that could not be read whole",
    "stacks": "stacks of threads",
    "files": "program, libraries and mapped files",
    "shared": "shared memory",
    "other": "other anonymous memory, outside malloc",
    "kernel": "the kernel's own pages (vdso)",
}


def _is_partial(picture: ResidentPicture, name: str) -> bool:
    return not picture.whole and name in OF_ARENAS


def label_of(picture: ResidentPicture, name: str) -> str:
    return LABELS[name] + (", as far as it could be read" if _is_partial(picture, name) else "")


def size_of(style: Style, picture: ResidentPicture, name: str) -> str:
    """The size of a part; a lower bound if something was unreadable."""
    size = picture.parts.get(name, 0)
    if not _is_partial(picture, name):
        return style.size(size)
    return f"≥ {style.size(size)}" if size else style.size(None)
