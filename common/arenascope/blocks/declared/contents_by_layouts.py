"""What objects hold, by the containers that Python reads."""

from __future__ import annotations

from typing import Optional

from .claims import Reader
from .containers.forms import OfBody, OfText
from .contents import Nature, Text
from .layouts import Layouts

STRING = "alloc::string::String"


class ContentsByLayouts:
    """Contents."""

    def __init__(self, layouts: Layouts, reader: Reader) -> None:
        self.types = layouts.types
        self._layouts, self._reader = layouts, reader

    def nature(self, type: int) -> Nature:
        container = self._layouts.container(type)
        is_of_numbers = isinstance(container, OfBody) and not container.words
        return Nature(container is not None, is_of_numbers, self._layouts.of(type).flexible is not None)

    def text(self, type: int, address: int) -> Optional[Text]:
        container = self._layouts.container(type)
        if isinstance(container, OfText):
            return container.text(self._reader, address)
        if self.types.facts(type).name != STRING:
            return None
        # its letters are in a vector
        inner = self._layouts.of(type).containers
        vector = inner[0].container if inner else None
        body = vector.body(self._reader, address + inner[0].offset) if isinstance(vector, OfBody) else None
        return Text(body.start, body.used, 1) if body is not None else None

    def elements(self, type: int, address: int) -> Optional[int]:
        container = self._layouts.container(type)
        return container.elements(self._reader, address) if container is not None else None
