"""What the kernel calls memory that it maps as if it were a file."""

from __future__ import annotations

HUGE_PAGES = "/anon_hugepage"
"""An anonymous mapping of hugetlbfs pages: a file of its own, that nobody can open."""
SHARED_MEMORY = ("/dev/shm/", "/memfd:", "/dev/zero", "/SYSV", "[anon_shmem")
"""POSIX shared memory, memfd's, anonymous, System V's."""
_SEMAPHORES = "/dev/shm/sem."
"""sem_open's: they lie there, too, and have room for a count alone."""


def may_be_shared(path: str) -> bool:
    """Whether it has what programs keep for themselves, or for each other."""
    named = path.startswith(SHARED_MEMORY) and not path.startswith(_SEMAPHORES)
    return named or path == HUGE_PAGES
