"""What objects of a type hold that their members do not tell: texts, and how many elements a container has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional, Protocol

if TYPE_CHECKING:
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


class Contents(Protocol):
    """Of one image."""

    types: TypeTable

    def nature(self, type: int) -> Nature: ...

    def text(self, type: int, address: int) -> Optional[Text]:
        """None where there is none, or it has not proved itself."""

    def elements(self, type: int, address: int) -> Optional[int]:
        """None where there is no container, or it has not proved itself."""
