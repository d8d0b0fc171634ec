"""libstdc++'s containers, from GCC 4.9 on, with strings of the old and the new ABI."""

from __future__ import annotations

from typing import Callable, Mapping, Optional

from ....sources.debug_info_types import TypeFacts
from ..claims import Container, Types
from .libstdcxx_bodies import BODIES
from .libstdcxx_nodes import NODES
from .libstdcxx_pointers import POINTERS
from .libstdcxx_values import VALUES

INNER = ("__cxx11", "__cxx1998", "__8")
"""Inline namespaces, and where the containers are that `_GLIBCXX_DEBUG` wraps."""
Form = Callable[[Types, int, TypeFacts], Optional[Container]]
FORMS: Mapping[str, Form] = {**NODES, **BODIES, **POINTERS, **VALUES}


class Libstdcxx:
    """A Library."""

    def container(self, types: Types, type: int) -> Optional[Container]:
        facts = types.facts(type)
        form = FORMS.get(template_of(facts.name) or "")
        return form(types, type, facts) if form is not None and facts.form == "struct" else None


def template_of(name: str) -> Optional[str]:
    """ "map" of std::map<int, int>; None for a name outside std."""
    parts = name.partition("<")[0].split("::")
    if parts[0] != "std":
        return None
    return "::".join(part for part in parts[1:] if part not in INNER)
