"""Names of templates as people write them: without what is there by default. Documents keep the whole ones."""

from __future__ import annotations

import pytest

from arenascope.base.class_names import type_words, with_short_names

STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>"
MAP = (
    f"std::map<{STRING}, std::vector<double, std::allocator<double>>, std::less<{STRING}>, "
    f"std::allocator<std::pair<{STRING} const, std::vector<double, std::allocator<double>>>>>"
)
SHORT = "std::map<std::string, std::vector<double>>"


@pytest.mark.parametrize(
    ("long", "short"),
    [
        (MAP, SHORT),
        (MAP.replace("__cxx11", "__1"), SHORT),
        (f"Registry<{MAP}>::instance+8 of `g_one` (a, b)", f"Registry<{SHORT}>::instance+8 of `g_one` (a, b)"),
        (
            "std::unordered_map<int, long, std::hash<int>, std::equal_to<int>, "
            "std::allocator<std::pair<int const, long>>>",
            "std::unordered_map<int, long>",
        ),
        (
            f"vtable for std::__cxx11::basic_stringstream<char>, {STRING}",
            "vtable for std::basic_stringstream<char>, std::string",
        ),
        ("std::unique_ptr<Shape, std::default_delete<Shape>>", "std::unique_ptr<Shape>"),
        # what is not there by default
        ("std::set<int, std::greater<int>, std::allocator<int>>", "std::set<int, std::greater<int>>"),
        ("std::set<int, std::less<void>, std::allocator<int>>", "std::set<int, std::less<void>>"),
        ("std::vector<int, shop::Pool<int>>", "std::vector<int, shop::Pool<int>>"),
        ("std::function<bool (int, std::less<int>)>", "std::function<bool (int, std::less<int>)>"),
        ("alloc::vec::Vec<u8, alloc::alloc::Global>::push", "alloc::vec::Vec<u8>::push"),
        # no name of a class, and one that was cut
        ("3 < 5, std::x", "3 < 5, std::x"),
        ("shop::Box<std::map<int", "shop::Box<std::map<int"),
    ],
)
def test_a_name_is_short(long: str, short: str) -> None:
    assert with_short_names(long) == short


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("g_cache body", "what g_cache points to"),
        ("_rtld_local+2760[][] body", "what _rtld_local+2760 leads to by 3 pointers"),
        ("g_cache->+24->+8 body", "what g_cache->+24->+8 points to"),
        ("g_pool[]->+8 body", "what g_pool[]->+8 points to"),
        (f"Registry<{MAP}>+40 body", f"what Registry<{SHORT}>+40 points to"),
        # bodies of containers, and what is no body
        ("std::string body", "std::string body"),
        ("Vec<u8> or String body", "Vec<u8> or String body"),
        ("Request[]", "Request[]"),
        ("Perl body arena", "Perl body arena"),
        (MAP, SHORT),
    ],
)
def test_a_block_that_only_its_holder_tells_of_is_named_in_words(name: str, words: str) -> None:
    assert type_words(name) == words
