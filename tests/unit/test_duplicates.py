"""The house's rule that each piece of knowledge has one place: no stretch of the product's code stands in it twice."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for folder in ("common", "gdb", "lldb") for path in sorted((ROOT / folder).rglob("*.py"))]
AT_MOST = 5
"""Lines that may stand twice: a loop's head, a row's shape. Whoever writes six again has a function to share."""
ALLOWED = {
    "_package_folder": "gdb/arena.py and lldb/arena.py: it finds the package, so it cannot be asked of the package",
    "_step64, _step32": "glibc/chunks/follow.py: the hot loop shifts by constants, and calls nothing",
}
"""Functions, named as `Twice.inside` has them, whose likeness is meant, and why."""


class Line(NamedTuple):
    number: int
    """In its file, from 1."""
    text: str
    """As Python reads it: without comment, and blanks between words alike."""
    inside: str
    """The function that it stands in; "" outside of any."""


class Twice(NamedTuple):
    first: str
    second: str
    """Both as FILE:FROM-TO."""
    inside: str
    """The functions they stand in."""
    lines: int

    def __str__(self) -> str:
        return f"{self.first} ~ {self.second}: {self.lines} lines, in {self.inside or 'no function'}"


def _uncounted(tree: ast.AST) -> set[int]:
    """The lines of imports, docstrings and decorators: what they say again is no knowledge."""
    found: set[int] = set()
    for node in ast.walk(tree):
        documents = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if documents or isinstance(node, (ast.Import, ast.ImportFrom)):
            assert isinstance(node, ast.stmt)
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for each in getattr(node, "decorator_list", ()):
            found.update(range(each.lineno, each.end_lineno + 1))
    return found


def _functions(tree: ast.AST) -> dict[int, str]:
    """The innermost function of each line that stands in one."""
    found: dict[int, str] = {}
    # from the outside in
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.name))
    return found


NO_WORDS = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(source: str) -> list[Line]:
    """The lines that say something; a lone bracket says nothing."""
    tree = ast.parse(source)
    left_out, functions = _uncounted(tree), _functions(tree)
    words: dict[int, list[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_WORDS:
            words.setdefault(token.start[0], []).append(token.string)
    return [
        Line(number, " ".join(said), functions.get(number, ""))
        for number, said in sorted(words.items())
        if number not in left_out and any(word.strip("()[]{},:") for word in said)
    ]


def repeated(files: dict[str, Sequence[Line]], at_most: int = AT_MOST) -> Iterator[Twice]:
    """Each pair of stretches of more lines than that which are alike, as long as they are."""
    seen: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    told: set[tuple[str, int, str, int]] = set()
    least = at_most + 1
    for name, lines in files.items():
        for at in range(len(lines) - least + 1):
            texts = tuple(line.text for line in lines[at : at + least])
            for other, there in seen.setdefault(texts, []):
                # part of a stretch that was told
                pair = (other, there, name, at)
                told.add(pair)
                if (other, there - 1, name, at - 1) in told:
                    continue
                earlier, length = files[other], least
                while (
                    at + length < len(lines)
                    and there + length < len(earlier)
                    and lines[at + length].text == earlier[there + length].text
                ):
                    length += 1
                yield _twice(other, earlier[there : there + length], name, lines[at : at + length])
            seen[texts].append((name, at))


def _twice(first: str, one: Sequence[Line], second: str, other: Sequence[Line]) -> Twice:
    inside = dict.fromkeys(line.inside for lines in (one, other) for line in lines if line.inside)
    return Twice(
        f"{first}:{one[0].number}-{one[-1].number}",
        f"{second}:{other[0].number}-{other[-1].number}",
        inside=", ".join(inside),
        lines=len(one),
    )


ONCE = '''
def one(rows):
    """What it does."""
    total = 0
    for row in rows:  # why
        total += row.bytes
        if row.last:
            break
    return total
'''
AGAIN = """
import os


@cached
def other(rows):
    total = 0
    for row in rows:

        # another reason
        total +=  row.bytes
        if row.last:
            break
    return (
        total
    )
"""


def test_a_repetition_is_seen() -> None:
    """Whatever comments, blanks and documents say in between."""
    files = {"a.py": code_lines(ONCE), "b.py": code_lines(AGAIN)}
    (found,) = repeated(files, 4)
    assert (found.first, found.second, found.inside, found.lines) == ("a.py:4-8", "b.py:7-13", "one, other", 5)
    assert not list(repeated(files, 5))


def test_imports_and_documents_are_no_repetition() -> None:
    head = (
        "from a import (\n    b,\n    c,\n    d,\n    e,\n    f,\n    g,\n)\n\n\nclass A:\n"
        + '    """A\n\n    of\n    it."""\n'
    )
    assert not list(repeated({"a.py": code_lines(head), "b.py": code_lines(head)}, 1))


def test_nothing_stands_twice() -> None:
    files = {path.relative_to(ROOT).as_posix(): code_lines(path.read_text()) for path in SOURCES}
    found = list(repeated(files))
    assert not [str(each) for each in found if each.inside not in ALLOWED]
    # an exception that nobody needs any more goes
    assert {each.inside for each in found} >= set(ALLOWED)
