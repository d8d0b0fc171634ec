"""What the parts of resident memory are called."""

from __future__ import annotations

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
