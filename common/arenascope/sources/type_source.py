"""Types from debug information, as a door provides them.

A door that knows types has a TypeSource beside its Target. Integers, strings and small records pass between them. Types
are numbered: the numbers are the source's own, one for each type without `const` and typedefs, and are valid for one
command. Code that follows pointers (`blocks/declared/`) asks for few types, once each, and reads blocks as bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, Literal, Mapping, NamedTuple, Optional, Protocol, Sequence

if TYPE_CHECKING:
    from ..engine import EngineTypes

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
"""A class is a struct. Any other form ("other": a pointer to a member, a complex number) has only a size."""


class StructField(NamedTuple):
    """A member of a struct or union, or a base class, that has a fixed place and whole bytes.

    Bit-fields, static members, and virtual bases are left out.
    """

    name: str
    """"" for an anonymous struct or union."""
    offset: int
    type: int
    is_base: bool = False


class BitField(NamedTuple):
    """A member that does not fill whole bytes, such as a tag."""

    name: str
    offset: int
    """In bits; on big-endian machines from the highest bit of the first byte."""
    size: int
    """In bits."""
    signed: bool = False


class TemplateArgument(NamedTuple):
    """A template's argument: a type or a number."""

    type: Optional[int] = None
    value: Optional[int] = None


class TypeFacts(NamedTuple):
    """A type in debug information."""

    name: str
    """As in the program: without "struct" or "class", with all template arguments; "" if it has none."""
    form: Form
    size: int
    """0: no module has its definition."""
    target: Optional[int] = None
    """The type that a pointer or a reference leads to, or of an array's elements; None: void, or not known."""
    length: Optional[int] = None
    """An array's length; None: it is flexible (T[]), as T[0] is."""
    fields: Sequence[StructField] = ()
    arguments: Sequence[TemplateArgument] = ()
    polymorphic: bool = False
    """Whether its objects have a vtable."""
    signed: bool = False
    enumerators: Mapping[str, int] = {}
    language: str = ""
    """ "c", "c++", "rust" or ""."""
    bits: Sequence[BitField] = ()
    tag: Optional[StructField] = None
    """For a union that is an enum of Rust's: the number that tells which of its fields is in use."""


class SizedStruct(NamedTuple):
    """A named struct, and its size."""

    type: int
    size: int


class TypedVariable(NamedTuple):
    """A variable that has one place in memory."""

    name: str
    """With namespaces and functions: "cache::table", "next_id()::last"."""
    address: int
    type: int
    tid: Optional[int] = None
    """The thread that it belongs to, if each thread has its own."""


class ThreadLocal(NamedTuple):
    """A variable of which each thread has its own copy."""

    name: str
    module: int
    """The module's first address."""
    offset: int
    """The offset in the module's block of a thread."""
    type: int


class VariableFrame(NamedTuple):
    """The frame of a thread in a function, which may hold a variable whose place is not known."""

    code: int
    """The address where it goes on."""
    low: int
    """The part of the stack that is the function's own, up to `high`."""
    high: int
    registers: tuple[int, ...] = ()
    """The registers in that frame, restored from what its callees have saved."""


class StartVariable(NamedTuple):
    """A variable, or an argument of a function, from which types are followed."""

    name: str
    type: int
    address: Optional[int]
    data: Optional[bytes] = None
    """Its value, if it is in registers. Without this and an address it is optimised out, and only its type is known."""
    tid: Optional[int] = None
    """The thread that it belongs to, if each thread has its own."""
    frame: Optional[int] = None
    """Of a local: which of the thread's, 0 the innermost, counting inlined ones."""
    function: str = ""
    within: Optional[VariableFrame] = None
    """Its possible places, if it is optimised out and as long as a pointer."""
    words: tuple[int, ...] = ()
    """The words there that lead to blocks' starts."""

    @property
    def label(self) -> str:
        name = f"{self.name} (place unknown)" if self.within is not None else self.name
        return f"{without_parameters(self.function)}(): {name}" if self.function else name


def without_parameters(function: str) -> str:
    """Drops its parameters, and unnamed namespaces: "main", "Shop::{lambda(int)#1}::operator"."""
    name, depth = function.replace("(anonymous namespace)::", ""), 0
    for at, letter in enumerate(name):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "(" and not depth:
            return name[:at]
    return name


class TypeSource(Protocol):
    """What is known of a program's types."""

    @property
    def engine(self) -> Optional[EngineTypes]:
        """Returns what follows these types; None if nothing is read."""

    def variables(self, addresses: Sequence[int]) -> Mapping[int, TypedVariable]:
        """Returns, by address, the variable that each of these lies in, including static ones of files and functions.
        Here and below, only modules whose file has the build-id in memory count."""

    def thread_locals(self) -> Sequence[ThreadLocal]:
        """Returns threads' own variables, even if their place is not known: those whose name only one symbol has."""

    def locals(self) -> Sequence[StartVariable]:
        """Returns the variables in every frame of every thread, as far as it can be unwound."""

    def facts(self, type: int) -> TypeFacts:
        """Returns facts of a type. A forward declaration is completed from any module that has the type by this
        name."""

    def named(self, name: str, beside: Optional[int] = None) -> Sequence[int]:
        """Finds the structs, unions and enums of a name, spelled as symbols and RTTI spell it. If several source files
        have one of their own, only those of the file with the type `beside` count."""

    def structs(self, of_program: bool = False) -> Iterator[SizedStruct]:
        """Returns all named structs of all modules, or of the program's own file: slow. For questions that need all of
        them (container_of)."""

    def without(self) -> Sequence[str]:
        """Returns the files of loaded modules without debug information here, or with that of another build, each
        once."""
