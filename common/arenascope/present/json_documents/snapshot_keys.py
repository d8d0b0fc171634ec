"""Which keys of which command's JSON a snapshot keeps."""

from __future__ import annotations

SECTIONS = {
    "report": ("rss_bytes", "swap_bytes", "parts", "measure"),
    "arenas": ("arenas", "mmapped", "totals", "allocators"),
    "bins": ("bins",),
    "threads": ("threads",),
    "params": ("params", "arenas"),
}
SIZES = {"chunks": ("summary", "sizes")}
OF_A_TYPE = ("type", "kind", "module", "certain", "blocks", "bytes", "resident_bytes", "holds_back_bytes")
OF_A_CONTAINER = ("path", "type", "form", "containers", "elements", "held_bytes")
OF_AN_OWNER = (
    *("kind", "name", "tid", "stale", "type", "held_bytes", "blocks"),
    *("retained_bytes", "retained_resident_bytes", "returns_bytes"),
)
