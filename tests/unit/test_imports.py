"""The house's rules that the source text itself can be held to: which room may know which."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import Iterator

import pytest

# all read each module once
pytestmark = pytest.mark.xdist_group("imports")

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "common" / "arenascope"
OURS = "arenascope"
MODULES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text(), str(path)) for name, path in MODULES.items()}


def imported(name: str, tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    """Every module that is imported, anywhere in the file: ours as "glibc/layout", others by their dotted name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node
        elif isinstance(node, ast.ImportFrom):
            if not node.level:
                yield node.module or "", node
                continue
            # level 1 is the module's own folder
            folder = name.split("/")[: -node.level]
            parts = [*folder, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                inner = "/".join([*parts, alias.name])
                yield (inner if inner in MODULES else "/".join(parts) or "__init__"), node


def ours(name: str, tree: ast.AST) -> set[str]:
    return {target for target, node in imported(name, tree) if isinstance(node, ast.ImportFrom) and node.level}


@cache
def graph() -> dict[str, set[str]]:
    return {name: ours(name, tree) for name, tree in trees().items()}


def test_the_graph_is_read() -> None:
    assert "glibc/find/main_arena" in graph()["session/session"]
    assert "base/errors" in graph()["sources/memory"]
    assert "present/shared_text/lines_and_tables" in graph()["commands/arenas"]
    assert {target for targets in graph().values() for target in targets} <= {
        *MODULES,
        *(name.rpartition("/__init__")[0] for name in MODULES),
    }


PACKAGES = (
    "base",
    "engine",
    "sources",
    "glibc",
    "analysis",
    "session",
    "blocks",
    "present",
    "commands/framework",
    "commands",
    "cli",
)
"""From the bottom up: each knows what comes before it."""
NAMED_IN_ANNOTATIONS = (("session/session", "blocks"), ("commands/framework/api_subject", "commands"))
"""A session keeps results of `blocks` in typed fields, a program's methods return the documents of commands. They
import nothing of these when they run."""
RECORDS = ("engine", "sources/target")
"""The engine takes memory as `sources` describes it: that file holds records alone."""
KNOWS_LESS = {
    # malloc's structures are walked in any memory, wherever that comes from
    "glibc": ("sources/core", "sources/live"),
    # figures are made of what was read
    "analysis": ("sources/core", "sources/live", "sources/elf", "sources/memory"),
    # what is shown was read before
    "present": ("sources/core", "sources/live", "sources/memory"),
    "sources/elf": ("sources/core", "sources/live"),
    "sources/core": ("sources/live",),
    "glibc/unknown_release": ("glibc/invariants", "glibc/find"),
}
"""Folders, and which others they have no use for although they come before them."""


def package_of(name: str) -> str:
    return next((each for each in PACKAGES if name == each or name.startswith(f"{each}/")), "")


def test_nothing_lies_loose() -> None:
    assert {name for name in MODULES if not package_of(name)} == {"__init__", "__main__"}
    assert {each.name for each in PACKAGE.iterdir()} - {"__pycache__"} == {
        "__init__.py",
        "__main__.py",
        "py.typed",
        "engine.py",
        *(each for each in PACKAGES if "/" not in each and each != "engine"),
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_knows_those_below_it(package: str) -> None:
    known = PACKAGES[: PACKAGES.index(package) + 1]
    files = [name for name in graph() if package_of(name) == package]
    assert files
    for name in files:
        for target in graph()[name]:
            if (name, package_of(target)) in NAMED_IN_ANNOTATIONS or (name, target) == RECORDS:
                continue
            # the version and the exit status of an interrupted command are everybody's
            assert target == "__init__" or package_of(target) in known, f"{name} imports {target}"


@pytest.mark.parametrize(("name", "package"), NAMED_IN_ANNOTATIONS)
def test_annotations_alone_name_these(name: str, package: str) -> None:
    assert package in {package_of(each) for each in graph()[name]}
    assert package not in {package_of(each) for each in run_graph()[name]}


@pytest.mark.parametrize("folder", KNOWS_LESS)
def test_what_a_folder_has_no_use_for(folder: str) -> None:
    others = KNOWS_LESS[folder]
    for name in (each for each in graph() if each.startswith(f"{folder}/")):
        found = [each for each in graph()[name] if any(f"{each}/".startswith(f"{other}/") for other in others)]
        assert not found, f"{name} imports {found}"


def test_nothing_of_ours_is_imported_by_a_string() -> None:
    """Optional libraries may be: what they are called is not known to whoever reads the imports."""
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
                text = ast.unparse(node.args[0])
                ours = OURS in text or "__package__" in text or "__name__" in text or text[1:2] == "."
                assert not ours, f"{name}:{node.lineno}"


def test_what_only_reads_does_not_know_what_calls() -> None:
    users = {name for name in run_graph() if "commands/trim" in run_graph()[name]}
    assert users == {"cli/shell_calls"}


def typed_only(tree: ast.Module) -> set[ast.stmt]:
    """Statements that a type checker alone runs."""
    blocks = [each for each in tree.body if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING"]
    return {node for each in blocks for node in ast.walk(each) if isinstance(node, ast.stmt)}


@cache
def run_graph() -> dict[str, set[str]]:
    """Without what only annotations name."""
    return {
        name: {
            target
            for target, node in imported(name, tree)
            if isinstance(node, ast.ImportFrom) and node.level and node not in typed_only(tree)
        }
        for name, tree in trees().items()
    }


def test_no_circles() -> None:
    """Of what is imported when it runs: an object whose fields keep results of other files names their types."""
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            for target in sorted(run_graph().get(name, ())):
                visit(target, (*path, name))
            done.add(name)

    for name in sorted(run_graph()):
        visit(name, ())


def test_nothing_imports_a_debugger() -> None:
    for name, tree in trees().items():
        for target, _ in imported(name, tree):
            assert target.split(".")[0] not in ("gdb", "lldb"), name


@pytest.mark.skipif(sys.version_info < (3, 10), reason="before Python 3.10 nothing tells which modules are its own")
def test_other_peoples_code_is_optional() -> None:
    """Loaded by name where it is to be had; only what that load proved is imported, inside the function."""
    for name, tree in trees().items():
        top = {id(node) for node in tree.body}
        for target, node in imported(name, tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                continue
            module = target.split(".")[0]
            if module in getattr(sys, "stdlib_module_names", ()) or module == "__future__":
                continue
            assert name == "commands/info", f"{name} imports {target}"
            assert id(node) not in top, f"{name} imports {target} at load time"


def is_version(node: ast.AST) -> bool:
    if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
        return False
    values = [each.value for each in node.elts if isinstance(each, ast.Constant)]
    return len(values) == 2 and values[0] == 2 and isinstance(values[1], int) and 10 <= values[1] <= 60


def test_versions_stand_in_one_file() -> None:
    found = {name for name, tree in trees().items() if any(is_version(node) for node in ast.walk(tree))}
    assert found == {"glibc/release_table"}


def test_no_folder_shadows_a_debugger() -> None:
    """With gdb/__init__.py, `import gdb` could find ours."""
    for folder in ("common", "gdb", "lldb", "tests"):
        assert not (ROOT / folder / "__init__.py").exists()
    assert {path.stem for path in (ROOT / "lldb").glob("*.py")}.isdisjoint(getattr(sys, "stdlib_module_names", ()))
