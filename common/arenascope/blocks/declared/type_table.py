"""Types by number: what debug information has of them."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ...sources.type_source import StructField, TypeFacts, TypeSource

DEEPEST = 32
"""So far members of members are looked into."""
NUMBERS = ("integer", "float", "enum", "boolean")


class TypeTable:
    """A source's, and those that the engine's containers made up, which have negative numbers."""

    def __init__(self, source: TypeSource) -> None:
        self._source = source
        self._facts: dict[int, TypeFacts] = {}
        self._keys: dict[int, StructField] = {}
        self._wholes: dict[int, int] = {}
        self.met: Sequence[int] = ()
        """Those that the engine met."""

    def facts(self, type: int) -> TypeFacts:
        facts = self._facts.get(type)
        if facts is None:
            facts = self._facts[type] = self._source.facts(type)
        return facts

    def text(self, type: Optional[int]) -> str:
        """A type as people write it; a struct without a name has none."""
        if type is None:
            return "void"
        facts = self.facts(type)
        if facts.form in ("pointer", "reference"):
            inner = self.text(facts.target)
            return f"{inner}*" if inner.endswith("*") else f"{inner} *"
        if facts.form == "array":
            return f"{self.text(facts.target)}[{facts.length if facts.length is not None else ''}]"
        return facts.name

    def known(self) -> Iterator[tuple[int, TypeFacts]]:
        """Those that were met until now."""
        return iter([(type, self.facts(type)) for type in dict.fromkeys([*self._facts, *self.met])])

    def named(self, name: str, beside: Optional[int] = None) -> Sequence[int]:
        return self._source.named(name, beside)

    def key(self, type: int) -> Optional[StructField]:
        """Of what a container made up: where it has its element's key."""
        return self._keys.get(type)

    def whole_of(self, type: int) -> Optional[int]:
        """Of a struct that some objects are without all of their last member: the struct."""
        return self._wholes.get(type)

    def adopt(self, number: int, facts: TypeFacts, key: Optional[StructField], whole: Optional[int]) -> None:
        """Takes a type that the engine made up, with its number. `whole`: see whole_of."""
        self._facts[number] = facts
        if whole is not None:
            self._wholes[number] = whole
        if key is not None:
            self._keys[number] = key
