"""What glibc's own calls would say, out of the figures of our documents."""

from __future__ import annotations

from typing import Any


def mallinfo(document: dict[str, Any]) -> dict[str, int]:
    """mallinfo2's, of `arenas`."""
    arenas = document["arenas"]
    free = sum(each["top_bytes"] + each["bins"]["bytes"] + each["fast"]["bytes"] for each in arenas)
    system = sum(each["system_bytes"] for each in arenas)
    return {
        "arena": system,
        "ordblks": sum(1 + each["bins"]["chunks"] for each in arenas),
        "smblks": sum(each["fast"]["chunks"] for each in arenas),
        "hblks": document["mmapped"]["chunks"],
        "hblkhd": document["mmapped"]["bytes"],
        "usmblks": 0,
        "fsmblks": sum(each["fast"]["bytes"] for each in arenas),
        "uordblks": system - free,
        "fordblks": free,
        "keepcost": arenas[0]["top_bytes"],
    }
