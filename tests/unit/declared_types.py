"""Types that a test declares by hand, as a debugger would tell them."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Sequence

from arenascope.sources.debug_info_types import Local, SizedStruct, StructField, ThreadLocal, TypedVariable, TypeFacts

WORD = 8


class DeclaredTypes:
    """A TypeSource."""

    def __init__(self) -> None:
        self.all: list[TypeFacts] = []
        self.by_address: dict[int, TypedVariable] = {}
        self.of_threads: list[TypedVariable] = []
        self.of_frames: list[Local] = []
        self.asked: list[int] = []
        self.beside: list[int] = []
        """Structs that the source file of every function has."""
        self.asked_beside: list[int] = []
        self.structs_asked = 0
        self.int = self.add(TypeFacts("int", "integer", 4, signed=True))
        self.long = self.add(TypeFacts("long", "integer", 8, signed=True))
        self.double = self.add(TypeFacts("double", "float", 8))
        self.char = self.add(TypeFacts("char", "character", 1))
        self.void = self.add(TypeFacts("void", "void", 0))

    def add(self, facts: TypeFacts) -> int:
        self.all.append(facts)
        return len(self.all) - 1

    def struct(self, name: str, size: int, *fields: tuple[str, int, int], form: str = "struct") -> int:
        """Fields are (name, offset, type); an offset below 0 has no place."""
        return self.add(TypeFacts(name, form, size, fields=[StructField(*each) for each in fields]))  # type: ignore[arg-type]

    def set(self, number: int, *fields: tuple[str, int, int]) -> None:
        """The fields of a struct that was declared before."""
        self.all[number] = self.all[number]._replace(fields=[StructField(*each) for each in fields])

    def to(self, target: int) -> int:
        """T*; a debugger tells no target of `void *`."""
        known = target if target != self.void else None
        return self.add(TypeFacts(f"{self.all[target].name} *", "pointer", WORD, target=known))

    def array(self, target: int, length: Optional[int]) -> int:
        size = self.all[target].size * (length or 0)
        return self.add(TypeFacts(f"{self.all[target].name} []", "array", size, target=target, length=length))

    def variable(self, name: str, address: int, type: int) -> None:
        self.by_address[address] = TypedVariable(name, address, type)

    # TypeSource

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]:
        self.asked += addresses
        found = {}
        for address in addresses:
            for each in self.by_address.values():
                if each.address <= address < each.address + self.all[each.type].size:
                    found[address] = each
        return found

    def thread_locals(self) -> Sequence[ThreadLocal]:
        return ()

    def thread_variables(self) -> Sequence[TypedVariable]:
        return self.of_threads

    def locals(self) -> Sequence[Local]:
        return self.of_frames

    def facts(self, type: int) -> TypeFacts:
        return self.all[type]

    def by_name(self, name: str) -> Optional[int]:
        found = [at for at, each in enumerate(self.all) if each.name == name and each.form == "struct"]
        return found[0] if len(found) == 1 else None

    def classes_at(self, code: int) -> Sequence[int]:
        return ()

    def pointer_to(self, type: int) -> int:
        known = [at for at, each in enumerate(self.all) if each.form == "pointer" and each.target == type]
        return known[0] if known else self.to(type)

    def structs(self, of_program: bool = False) -> Iterator[SizedStruct]:
        self.structs_asked += 1
        return (SizedStruct(at, each.size) for at, each in enumerate(self.all) if each.form == "struct")

    def structs_of_source_file(self, code: int, least: int, most: int) -> Sequence[int]:
        self.asked_beside.append(code)
        return [at for at in self.beside if least <= self.all[at].size <= most]

    def without(self) -> Sequence[str]:
        return ()
