"""Names of types as GCC's debug information and GDB have them, as LLDB has them, and as symbols are demangled."""

from __future__ import annotations

import time

import pytest

from arenascope.sources.elf.demangle import demangle
from arenascope.sources.type_spelling import literal, parts_of, spelled, within

STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
# in GDB 13, and in LLDB 14 to 22, of one program; the demangled symbol's suffix of numbers is not in either
BOTH = [
    ("Ring<int (&) [4], 4, false, (char)'x'>", "Ring<int (&)[4], 4, false, 'x'>"),
    ("Ring<unsigned char, 1, true, (char)'\\012'>", "Ring<unsigned char, 1, true, '\\n'>"),
    ("Pack<char const*, int* const, int const&, int&&>", "Pack<const char *, int *const, const int &, int &&>"),
    ("Pack<int Base::*, void (Base::*)(int)>", "Pack<int Base::*, void (Base::*)(int)>"),
    ("Pack<int [3], int [], int [2][3]>", "Pack<int[3], int[], int[2][3]>"),
    ("Pack<const Base*, const Base* const*>", "Pack<const Base *, const Base *const *>"),
    ("Pack<void(int, char const*), int (* (*)(char))[3]>", "Pack<void (int, const char *), int (*(*)(char))[3]>"),
    ("std::allocator<std::pair<int const, Base> >", "std::allocator<std::pair<const int, Base> >"),
    ("std::function<int(int)>", "std::function<int (int)>"),
    (f"std::map<{STRING}, int>", f"std::map<{STRING}, int>"),
    ("Pack<std::nullptr_t, _Bool, long double>", "Pack<std::nullptr_t, bool, long double>"),
    ("long unsigned int", "unsigned long"),
    ("complex float", "_Complex float"),
]


@pytest.mark.parametrize(("in_gdb", "in_lldb"), BOTH)
def test_both_debuggers_are_spelled_alike(in_gdb: str, in_lldb: str) -> None:
    assert spelled(in_gdb) == spelled(in_lldb)


@pytest.mark.parametrize(
    ("mangled", "in_debug_information"),
    [
        ("_ZTV4RingIPKcLi2ELb0ELc97EL5Color0EE", "Ring<char const*, 2, false, (char)'a', (Color)0>"),
        ("_ZTVSt23_Sp_counted_ptr_inplaceI4BaseSaIvELN9__gnu_cxx12_Lock_policyE2EE", None),
        ("_ZTV4PackIJM4BaseiMS0_FviEOiRKiA3_iA2_A3_iPKPKS0_EE", None),
        ("_ZTV4PackIJFviPKcEPFPA3_icEEE", "Pack<void(int, char const*), int (*(*)(char))[3]>"),
        ("_ZTVSt8functionIFvvEE", "std::function<void()>"),
        ("_ZTVN5cache12_GLOBAL__N_15TableE", "cache::(anonymous namespace)::Table"),
        ("_ZTV3PutILm5EE", "Put<5>"),
        ("_ZTV3PutISsE", "Put<std::basic_string<char, std::char_traits<char>, std::allocator<char> > >"),
    ],
)
def test_as_rtti_spells_it(mangled: str, in_debug_information: str) -> None:
    name = demangle(mangled).partition("vtable for ")[2]
    assert name
    assert spelled(name) == spelled(in_debug_information or name)
    if in_debug_information is None:
        assert spelled(name) == name


NAMES = [name for both in BOTH for name in both]
STRANGE = [
    "",
    "main(int, char**)::<lambda(int)>",
    "std::_Base_manager<main(int, char**)::<lambda()>>",
    "std::_Base_manager<lam::'lambda'(int)>",
    "std::_Base_manager<lam::{lambda(int)#1}>",
    "(unnamed struct)",
    "Foo::(unnamed struct)",
    "alloc::vec::Vec<&str, alloc::alloc::Global>",
    "(u8, alloc::string::String)",
    "*mut core::task::wake::RawWaker",
    "Ring<(Color)5>::push(int) const::Local",
    "Cmp<&(ns::f(int))>",
    "decltype(nullptr)",
    "operator<",
]


@pytest.mark.parametrize("name", STRANGE)
def test_what_is_no_c_plus_plus_stays(name: str) -> None:
    assert spelled(name) == name


@pytest.mark.parametrize("name", NAMES + STRANGE)
def test_spelled_twice_is_as_once(name: str) -> None:
    assert spelled(spelled(name)) == spelled(name)


def test_different_types_keep_different_names() -> None:
    names = [
        "A<int>",
        "A<unsigned int>",
        "A<int*>",
        "A<int const*>",
        "A<int* const>",
        "A<int const>",
        "A<int []>",
        "A<int [1]>",
        "A<int (*) [1]>",
        "A<int* [1]>",
        "A<int ()>",
        "A<int (*)()>",
        "A<int (*)() noexcept>",
        "A<(char)1>",
        "A<(short)1>",
        "A<1>",
        "A<true>",
        "A<B>",
        "A<B>::C",
        "A<B::C>",
        "A<char>",
        "A<signed char>",
        "A<long>",
        "A<long long>",
        "A<>",
        "A",
    ]
    assert len({spelled(name) for name in names}) == len(names)


def test_parts() -> None:
    parts = parts_of("ns::Ring<int, Pack<3, 4>, ',', ns::f(int, int)::T>")
    assert parts is not None
    assert parts.template == "ns::Ring"
    assert parts.arguments == ["int", "Pack<3, 4>", "','", "ns::f(int, int)::T"]
    assert parts_of("Ring<int>::Node") is None
    assert within("ns::Ring<x::y>::Node") == ("ns::Ring<x::y>", "Node")
    assert within("f(a::b)::T") == ("f(a::b)", "T")
    assert within("T") == ("", "T")


def test_literals() -> None:
    assert [literal("int", -3), literal("bool", 1), literal("char", 120)] == ["-3", "true", "(char)120"]
    assert literal("ns::Color", 2) == "(ns::Color)2"


def test_hostile_names_end_soon() -> None:
    start = time.process_time()
    for name in (
        "A<" * 8000,
        "(" * 8000,
        "A<B," * 4000,
        "'" * 8000,
        "A<" * 4000 + ">" * 4000,
        "*" * 8000,
        "a::" * 5000,
    ):
        assert isinstance(spelled(name), str)
    assert time.process_time() - start < 10
