"""What local variables are called: by their functions."""

from __future__ import annotations

import pytest

from arenascope.sources.type_source import StartVariable


@pytest.mark.parametrize(
    ("function", "label"),
    [
        ("", "book"),
        ("main", "main(): book"),
        ("shop::serve(int, char **)", "shop::serve(): book"),
        ("(anonymous namespace)::serve(int)", "serve(): book"),
        ("shop::(anonymous namespace)::serve(void (*)(int))", "shop::serve(): book"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator(): book"),
        ("shop::serve::{{closure}}", "shop::serve::{{closure}}(): book"),
    ],
)
def test_a_variable_is_called_by_its_function(function: str, label: str) -> None:
    assert StartVariable("book", 0, None, function=function).label == label
