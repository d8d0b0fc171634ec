"""libstdc++'s containers, from GCC 4.9 on, with strings of the old and the new ABI."""

from __future__ import annotations

from typing import Mapping, Optional

from .forms import ByTemplate, Form
from .libstdcxx_bodies import BODIES
from .libstdcxx_nodes import NODES
from .libstdcxx_pointers import POINTERS
from .libstdcxx_values import VALUES

INNER = ("__cxx11", "__cxx1998", "__8")
"""Inline namespaces, and where the containers are that `_GLIBCXX_DEBUG` wraps."""
FORMS: Mapping[str, Form] = {**NODES, **BODIES, **POINTERS, **VALUES}


def template_of(name: str) -> Optional[str]:
    """ "map" of std::map<int, int>; None for a name outside std."""
    parts = name.partition("<")[0].split("::")
    if parts[0] != "std":
        return None
    return "::".join(part for part in parts[1:] if part not in INNER)


LIBSTDCXX = ByTemplate(template_of, FORMS)
