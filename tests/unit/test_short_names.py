"""Names of templates as people write them: without what is there by default. Documents keep the whole ones."""

from __future__ import annotations

import pytest

from arenascope.base.class_names import type_words, with_short_names
from arenascope.commands.framework.command import Answer
from arenascope.present.shared_text.text import Style, shortened_name, table

STRING = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>"
MAP = (
    f"std::map<{STRING}, std::vector<double, std::allocator<double>>, std::less<{STRING}>, "
    f"std::allocator<std::pair<{STRING} const, std::vector<double, std::allocator<double>>>>>"
)
SHORT = "std::map<std::string, std::vector<double>>"
WIDTH = 400


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


def test_screens_have_short_names_and_documents_whole_ones() -> None:
    style = Style(width=WIDTH)
    rows = table(style, ["whose", "holds"], [[MAP, "1"], ["x", "2"]], names=(0,))
    answer = Answer({"name": MAP}, [f"{MAP} holds most", *rows])
    said = "".join(answer.text(style))
    assert SHORT in said.splitlines()[0]
    assert "allocator" not in said
    # the columns are as wide as what is shown
    assert max(map(len, said.splitlines()[1:])) < len(SHORT) + 10
    assert answer.found == {"name": MAP}


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("0x5641 _out.file._read_ptr (char[] of _FILE._read_ptr)", "0x5641 _out.file._read_ptr"),
        ("0x5641 out.ptr (char[] of _FILE._read_ptr)", "0x5641 out.ptr (char[] o…_ptr)"),
        ("0x5641 table.rows (std::function<void ()> and a tail)", "0x5641 table.rows (std::fu…ail)"),
        ("0x5641 a_long_table.of_all_its_rows (Row)", "0x5641 a_long_table.of_…ts_rows"),
        ("void (*)(int, std::string, std::string)", "void (*)(int, std::…::string)"),
        ("a_long_name_of_a_result ()", "a_long_na…sult"),
    ],
)
def test_what_stands_behind_a_name_is_cut_by_itself(name: str, short: str) -> None:
    """Its end is not the name's."""
    assert shortened_name(name, len(short)) == short


@pytest.mark.parametrize("width", range(8, 31))
def test_figures_behind_a_name_are_shown_whole_or_not_at_all(width: int) -> None:
    forms = ("`g_hash`", "`g_hash` (40 of 770)", "`g_hash` (40 of 770, 1.9 KiB)")
    assert shortened_name(forms[-1], width) == max((each for each in forms if len(each) <= width), key=len)
