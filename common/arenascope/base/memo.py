"""What was found of one image, for whoever asks again: one value of each class."""

from __future__ import annotations

from typing import Optional, TypeVar

T = TypeVar("T")


class Memo:
    def __init__(self) -> None:
        self._values: dict[type, object] = {}

    def get(self, kind: type[T]) -> Optional[T]:
        value = self._values.get(kind)
        return value if isinstance(value, kind) else None

    def keep(self, value: T) -> T:
        self._values[type(value)] = value
        return value

    def forget_all_but(self, *kinds: type) -> None:
        self._values = {kind: value for kind, value in self._values.items() if kind in kinds}
