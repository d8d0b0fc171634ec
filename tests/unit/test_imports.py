"""The house's rules that the source text itself can be held to: which room may know which."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Iterator

import pytest
from loaded_modules import FEW_NEED, loaded_after, loaded_by_shell

# all read each module once
pytestmark = pytest.mark.xdist_group("imports")

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "common" / "arenascope"
OURS = "arenascope"
MODULES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
SOURCES = [path for folder in ("common", "gdb", "lldb") for path in sorted((ROOT / folder).rglob("*.py"))]


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
    assert "present/shared_text/text" in graph()["commands/arenas"]
    assert {target for targets in graph().values() for target in targets} <= {
        *MODULES,
        *(name.rpartition("/__init__")[0] for name in MODULES),
    }


PACKAGES = (
    "base",
    "sources",
    "glibc",
    "analysis",
    "session",
    "blocks",
    "present",
    "commands/redact",
    "commands/framework",
    "commands/steps",
    "commands",
    "cli",
)
"""From the bottom up: each knows what comes before it."""
KNOWS_LESS = {
    # malloc's structures are walked in any memory, wherever that comes from
    "glibc": ("sources/core", "sources/live"),
    # figures are made of what was read
    "analysis": ("sources/core", "sources/live", "sources/elf", "sources/memory"),
    # what is shown was read before
    "present": ("sources/core", "sources/live", "sources/memory"),
    "sources/elf": ("sources/core", "sources/live"),
    "sources/core": ("sources/live",),
    "glibc/chunks": ("glibc/check", "glibc/unknown_release", "glibc/find"),
    "glibc/unknown_release": ("glibc/check", "glibc/chunks", "glibc/find"),
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
        *(each for each in PACKAGES if "/" not in each),
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_knows_those_below_it(package: str) -> None:
    known = PACKAGES[: PACKAGES.index(package) + 1]
    files = [name for name in graph() if package_of(name) == package]
    assert files
    for name in files:
        for target in graph()[name]:
            # the version and the exit status of an interrupted command are everybody's
            assert target == "__init__" or package_of(target) in known, f"{name} imports {target}"


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


def test_the_tree_is_as_drawn() -> None:
    """docs/architecture.md draws every package and its folders, from the bottom or from the top."""
    drawing = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
    drawn = set(re.findall(r"[a-z_]+/", drawing))
    folders = {f"{path.parent.name}/" for path in MODULES.values() if path.parent != PACKAGE}
    assert folders - {"pages/"} <= drawn
    assert drawn - folders <= {"gdb/", "lldb/", "common/", "arenascope/", "pages/"}


def test_files_that_are_named_are_there() -> None:
    """In comments, docstrings and documents: by their name, or with the rooms that they stand in."""
    sources = [each for folder in ("common", "gdb", "lldb") for each in (ROOT / folder).rglob("*.py")]
    others = [
        each for folder in ("tests", "benchmarks", "scripts", "examples") for each in (ROOT / folder).rglob("*.py")
    ]
    there = [f"/{each.relative_to(ROOT)}" for each in (*sources, *others)]
    for file in (*sources, *ROOT.glob("*.md"), *ROOT.glob("docs/*.md")):
        named = {each.lstrip("/") for each in re.findall(r"[\w/]+\.py\b", file.read_text())}
        gone = {each for each in named if not any(path.endswith(f"/{each}") for path in there)}
        # somebody else's, where ours would lie on a user's machine, and what a reader puts in
        gone -= {"argparse.py", "common/arenascope/commands/NAME.py"}
        gone -= {*re.findall(r"^```python\n# (\w+\.py)$", file.read_text(), re.MULTILINE)}
        assert {each for each in gone if not each.startswith("path/to/")} == set(), file


def test_where_you_go_is_there() -> None:
    """CONTRIBUTING.md: each path of the list leads somewhere, each name of an entry stands in a file of that entry."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where you go\n")[2].partition("\n## ")[0]
    entries = re.findall(r"^- \*\*.*\n(?:  .*\n)*", section + "\n", re.MULTILINE)
    assert entries
    for entry in entries:
        told = re.findall(r"`([^`]+)`", entry.partition(".** ")[2])
        paths = {each for each in told if "/" in each or each.endswith((".py", ".c", ".md"))}
        found = [folder / each for each in paths for folder in (PACKAGE, ROOT) if (folder / each).exists()]
        assert len(found) == len(paths), entry
        files = [each for place in found for each in (place.glob("*.py") if place.is_dir() else [place])]
        text = "\n".join(each.read_text() for each in [*files, PACKAGE / "commands" / "framework" / "command.py"])
        names = {each for each in told if each not in paths and not each.startswith(("make ", "@"))}
        assert {name for name in names if not re.search(rf"\b{name}\b", text)} == set(), entry


def test_what_texts_and_analysis_take_is_types_alone() -> None:
    """Located is an annotation there: nothing of it runs."""
    users = {name for name in graph() if name.startswith("present/") and "glibc/find/main_arena" in graph()[name]}
    assert users == {"present/formats/json"}
    for name in graph():
        if name.startswith("analysis/"):
            used = {node.attr for node in ast.walk(trees()[name]) if isinstance(node, ast.Attribute)}
            assert not used & {"read", "try_word", "words", "node", "u32", "symbol", "thread_local"}, name


def test_screens_take_a_style_and_data() -> None:
    """Neither a context nor a session: what is said was read before."""
    for name in graph():
        if name.startswith("present/screens/"):
            used = {node.attr for node in ast.walk(trees()[name]) if isinstance(node, ast.Attribute)}
            assert not used & {"session", "context", "target", "memory"}, name


def test_nobody_peeks_into_what_a_session_has() -> None:
    """It says itself what it has so far; a report's `vars` are those of its options."""
    for name, tree in trees().items():
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert "__dict__" not in used, name
        assert "vars" not in called or name in ("session/session", "commands/report"), name


def test_what_only_reads_does_not_know_what_calls() -> None:
    """In the shell, and in what a door is, it is a type alone."""
    apply = "commands/framework/apply_trim"
    users = {name for name in graph() if apply in graph()[name]}
    assert users == {
        "commands/framework/command",
        "commands/trim",
        *(f"cli/shell{each}" for each in ("", "_callers", "_control")),
    }


def test_no_circles() -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            for target in sorted(graph().get(name, ())):
                visit(target, (*path, name))
            done.add(name)

    for name in sorted(graph()):
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
            assert name in ("present/formats/highlight", "base/array_types"), f"{name} imports {target}"
            assert id(node) not in top, f"{name} imports {target} at load time"


def loaded_by(*names: str) -> set[str]:
    """What these modules of ours load."""
    return loaded_after(f"import {', '.join(f'{OURS}.{each}' for each in names)}")


def test_what_programs_import_is_loaded_when_it_is_used() -> None:
    """`import arenascope` itself, and each look in the shell, load nothing of what is for programs."""
    loaded = {each for each in loaded_by("base.about") if each.startswith(OURS)}
    assert loaded == {OURS, f"{OURS}.base", f"{OURS}.base.about"}
    looked = loaded_by("cli.main", "commands.arenas")
    assert not {f"{OURS}.cli.api", f"{OURS}.commands.framework.api_subject"} & looked


ONLY_FOR_UNKNOWN_RELEASES = {
    f"{OURS}.glibc.unknown_release.{each}" for each in ("state", "heaps", "lists", "params", "layout_checks")
}


def test_what_a_release_that_is_known_does_not_need_is_not_loaded() -> None:
    loaded = loaded_by("cli", "commands.arenas", "sources.live.live_target")
    assert sorted(ONLY_FOR_UNKNOWN_RELEASES & loaded) == []


def test_a_debuggers_start_loads_nothing_that_names_blocks() -> None:
    """It loads all commands: what few of them need is a third of all modules."""
    commands = [name.replace("/", ".") for name in MODULES if name.startswith("commands/") and name.count("/") == 1]
    loaded = loaded_by(*(each for each in commands if not each.endswith("__init__")))
    assert f"{OURS}.commands.chunk" in loaded
    naming = (f"{OURS}.blocks.declared.", f"{OURS}.blocks.graph.", f"{OURS}.blocks.recognise.all_recognisers")
    assert sorted(each for each in loaded if each.startswith(naming)) == []


@pytest.mark.parametrize("words", ["--version", "arenas --help", "types --help"])
def test_the_shell_starts_without_what_few_looks_need(words: str) -> None:
    loaded = loaded_by_shell(*words.split())
    assert f"{OURS}.cli.main" in loaded
    assert sorted(FEW_NEED & loaded) == []


def test_help_loads_nothing_for_many_processes() -> None:
    """Though it loads all commands."""
    assert sorted({"concurrent.futures", "multiprocessing"} & loaded_by_shell("help")) == []


def test_version_loads_nothing_that_reads() -> None:
    reads = (f"{OURS}.analysis", f"{OURS}.glibc", f"{OURS}.session", f"{OURS}.sources")
    assert sorted(each for each in loaded_by_shell("--version") if each.startswith(reads)) == []


def is_version(node: ast.AST) -> bool:
    if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
        return False
    values = [each.value for each in node.elts if isinstance(each, ast.Constant)]
    return len(values) == 2 and values[0] == 2 and isinstance(values[1], int) and 10 <= values[1] <= 60


def test_versions_stand_in_one_file() -> None:
    found = {name for name, tree in trees().items() if any(is_version(node) for node in ast.walk(tree))}
    assert found == {"glibc/release_table"}


LAST_RESORTS = ("main.py", "mcp_server.py", "several_subjects.py", "worker.py")
"""What nobody foresaw is caught once in each door, and becomes a line that can be sent (internal_error.py)."""


ENGINES = ("engine_errors.py",)
"""What their libraries raise is passed on as an error of one line."""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_and_catches_what_it_names(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and path.is_relative_to(PACKAGE):
            names = [each.id for each in ast.walk(node.type) if isinstance(each, ast.Name)] if node.type else []
            assert names, f"line {node.lineno}: a bare except"
            # cleaning up and passing it on is no catch
            passed_on = isinstance(node.body[-1], ast.Raise) and (node.body[-1].exc is None or path.name in ENGINES)
            last_resort = path.name in LAST_RESORTS and "fault" in ast.unparse(node.body)
            assert passed_on or last_resort or not {"Exception", "BaseException"} & set(names), f"line {node.lineno}"
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 80, f"{node.name} is longer than a screen"


def test_no_folder_shadows_a_debugger() -> None:
    """With gdb/__init__.py, `import gdb` could find ours."""
    for folder in ("common", "gdb", "lldb", "tests"):
        assert not (ROOT / folder / "__init__.py").exists()
    assert {path.stem for path in (ROOT / "lldb").glob("*.py")}.isdisjoint(getattr(sys, "stdlib_module_names", ()))
