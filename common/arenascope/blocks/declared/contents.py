"""What objects of a type hold that their members do not tell: texts, and how many elements a container has."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ...engine import ObjectReading, TracedBlocks
from .type_table import TypeTable


class Text(NamedTuple):
    """Where a string's letters lie."""

    start: int
    length: int
    """In letters."""
    size: int
    """Bytes of a letter."""


class Nature(NamedTuple):
    """What a type is besides its members."""

    is_container: bool
    """A library's container."""
    is_of_numbers: bool
    """One whose elements lie beside each other and lead nowhere: letters, bits."""
    is_flexible: bool
    """It ends in an array of unknown length."""


class Contents:
    """Of one image: the engine reads them."""

    def __init__(self, types: TypeTable, traced: TracedBlocks) -> None:
        self.types = types
        self._reading = ObjectReading(traced)
        self._natures: dict[int, Nature] = {}

    def nature(self, type: int) -> Nature:
        known = self._natures.get(type)
        if known is None:
            known = self._natures[type] = Nature(*self._reading.nature(type))
        return known

    def text(self, type: int, address: int) -> Optional[Text]:
        """None where there is none, or it has not proved itself."""
        _, text = self._reading.contents(type, address)
        return Text(*text) if text is not None else None

    def elements(self, type: int, address: int) -> Optional[int]:
        """None where there is no container, or it has not proved itself."""
        return self._reading.contents(type, address)[0]
