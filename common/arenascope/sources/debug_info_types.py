"""Types from debug information: what a door tells of them.

A door that knows types has a TypeSource beside its Target. Integers, strings and small records cross the seam. Types
are numbered: the numbers are the source's own, one for each type without `const` and typedefs, and hold for one
command. Whoever follows pointers (`blocks/declared/`) asks for few types, once each, and reads blocks as bytes.
"""

from __future__ import annotations

from typing import Iterator, Literal, Mapping, NamedTuple, Optional, Protocol, Sequence

Form = Literal[
    "struct",
    "union",
    "array",
    "pointer",
    "reference",
    "integer",
    "character",
    "boolean",
    "float",
    "enum",
    "function",
    "void",
    "other",
]
"""A class is a struct. What is none of these ("other": a pointer to a member, a complex number) has a size alone."""


class StructField(NamedTuple):
    """A member of a struct or union, or a base class, that has a fixed place and whole bytes.

    Bit-fields, static members, and virtual bases are left out.
    """

    name: str
    """"": an anonymous struct or union."""
    offset: int
    type: int
    is_base: bool = False


class BitField(NamedTuple):
    """A member that has not whole bytes, such as a tag."""

    name: str
    offset: int
    """In bits; where the first byte is the one of most weight, from its highest bit on."""
    size: int
    """In bits."""
    signed: bool = False


class TemplateArgument(NamedTuple):
    """A template's argument: a type or a number."""

    type: Optional[int] = None
    value: Optional[int] = None


class TypeFacts(NamedTuple):
    """A type as debug information has it."""

    name: str
    """As in the program: without "struct" or "class", with all template arguments; "": it has none."""
    form: Form
    size: int
    """0: nowhere complete, in no module."""
    target: Optional[int] = None
    """What a pointer or a reference leads to, and an array consists of; None: void, or not known."""
    length: Optional[int] = None
    """Of an array; None: it is flexible (T[]), as T[0] is."""
    fields: Sequence[StructField] = ()
    arguments: Sequence[TemplateArgument] = ()
    polymorphic: bool = False
    """Its objects have a vtable."""
    signed: bool = False
    enumerators: Mapping[str, int] = {}
    language: str = ""
    """ "c", "c++", "rust" or ""."""
    bits: Sequence[BitField] = ()
    tag: Optional[StructField] = None
    """Of a union that is an enum of Rust's: the number that tells which of its fields there is."""


class SizedStruct(NamedTuple):
    """A named struct, and how large it is."""

    type: int
    size: int


class TypedVariable(NamedTuple):
    """A variable that has one place in memory."""

    name: str
    """With namespaces and functions: "cache::table", "next_id()::last"."""
    address: int
    type: int
    tid: Optional[int] = None
    """Whose, where each thread has its own."""


class ThreadLocal(NamedTuple):
    """A variable of which each thread has its own."""

    name: str
    module: int
    """Where its module begins."""
    offset: int
    """In the module's block of a thread."""
    type: int


class VariableFrame(NamedTuple):
    """Of a thread, while a function is at work: where a variable may be of which nobody knows the place."""

    code: int
    """Where it goes on."""
    low: int
    """The part of the stack that is the function's own, up to `high`."""
    high: int
    registers: tuple[int, ...] = ()
    """As they are there: what functions that it called have kept for it."""


class Local(NamedTuple):
    """A variable or argument of a function that is on a thread's stack now."""

    name: str
    type: int
    tid: int
    frame: int
    """0: the innermost, inlined ones counted."""
    function: str
    address: Optional[int] = None
    data: Optional[bytes] = None
    """Its value, where it is in registers. Neither this nor an address: optimised out, and its type is all that is
    known."""
    within: Optional[VariableFrame] = None
    """Of what is optimised out, and as long as a pointer: where it may be."""


class TypeSource(Protocol):
    """What a debugger knows of a program's types."""

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]:
        """The variable that each of these lies in, static ones of files and functions included; by the address asked.
        Only for modules whose file has the build-id that is in memory, as all that follows."""

    def thread_variables(self) -> Sequence[TypedVariable]:
        """Every thread's own variables that have a type."""

    def thread_locals(self) -> Sequence[ThreadLocal]:
        """What threads have of their own, whether it is known where: those of which one symbol alone has the name."""

    def locals(self) -> Sequence[Local]:
        """Of every frame of every thread, as far as it can be unwound."""

    def facts(self, type: int) -> TypeFacts:
        """A forward declaration is completed from any module that has the type by this name."""

    def by_name(self, name: str) -> Optional[int]:
        """A struct, union or enum; spelled as symbols and RTTI spell it. None where there is none, or where two modules
        have different ones."""

    def classes_at(self, code: int) -> Sequence[int]:
        """The class of which the function that begins there is a method. Several where they have one name, as templates
        of a function's lambdas do; none where it is not known."""

    def pointer_to(self, type: int) -> int:
        """The type T* of T."""

    def structs(self, of_program: bool = False) -> Iterator[SizedStruct]:
        """All named structs of all modules, or of the program's own file: slow. For what only all of them can tell
        (container_of)."""

    def structs_of_source_file(self, code: int, least: int, most: int) -> Sequence[int]:
        """Those of so many bytes that the source file of the function at this address has: quick."""

    def without(self) -> Sequence[str]:
        """The files of loaded modules that have no debug information here, or that of another build, each once."""
