"""What a reader must know before trusting a figure: damage that was met, and what could not be found."""

from __future__ import annotations

from ..session import Session


def problems_of(session: Session) -> list[str]:
    """One line each, in the order in which they were met."""
    problems = [str(finding) for finding in session.findings]
    if "thread_caches" in session.__dict__ and not session.caches_known:
        problems.append("not every thread's cache was found: what they hold is not told from blocks in use")
    return problems
