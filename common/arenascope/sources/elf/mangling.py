"""The Itanium C++ ABI's letters for types and operators, as demangle.py reads them."""

from __future__ import annotations

SPECIAL = {"_ZTV": "vtable for ", "_ZTI": "typeinfo for ", "_ZTS": "typeinfo name for ", "_ZTT": "VTT for "}
BUILTIN = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "n": "__int128",
    "o": "unsigned __int128",
    "f": "float",
    "d": "double",
    "e": "long double",
    "g": "__float128",
    "w": "wchar_t",
    "z": "...",
    "Dn": "decltype(nullptr)",
    "Di": "char32_t",
    "Ds": "char16_t",
    "Du": "char8_t",
    "Da": "auto",
    "Dd": "decimal64",
    "De": "decimal128",
    "Df": "decimal32",
    "DF16b": "std::bfloat16_t",
    **{f"DF{bits}_": f"_Float{bits}" for bits in (16, 32, 64, 128)},
    **{f"DF{bits}x": f"_Float{bits}x" for bits in (32, 64, 128)},
}
STANDARD = {
    "t": "std",
    "a": "std::allocator",
    "b": "std::basic_string",
    "s": "std::string",
    "i": "std::istream",
    "o": "std::ostream",
    "d": "std::iostream",
}
NUMBERS = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
"""Kinds of literals that are written as numbers, and with which ending."""
SUFFIXES = {"P": "*", "R": "&", "O": "&&"}
QUALIFIERS = {"r": " restrict", "V": " volatile", "K": " const"}
OPERATORS = {
    "cl": "operator()",
    "ix": "operator[]",
    "pt": "operator->",
    "aS": "operator=",
    "nw": "operator new",
    "eq": "operator==",
    "ne": "operator!=",
    "lt": "operator<",
    "gt": "operator>",
    "pl": "operator+",
    "mi": "operator-",
    "ml": "operator*",
    "ls": "operator<<",
    "rs": "operator>>",
    "pp": "operator++",
}
