"""The house's rules that the source text itself can be held to: which room may know which."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import typing
from functools import cache
from pathlib import Path
from typing import Any, Iterator

import pytest

from arenascope import records

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
    assert "glibc/find/locate" in graph()["session"]
    assert "errors" in graph()["memory"]
    assert "render/text" in graph()["commands/arenas"]
    assert {target for targets in graph().values() for target in targets} <= {
        *MODULES,
        *(name.rpartition("/__init__")[0] for name in MODULES),
    }


LOW = (
    "errors",
    "mapped",
    "model",
    "records",
    "nodes",
    "target",
    "region_index",
    "memory",
    "meter",
    "printable",
    "read_ahead",
    "crew",
)
GLIBC = ("glibc", "glibc/chunks", "glibc/check", "glibc/derive", "glibc/find")
ROOMS: dict[str, tuple[str, ...]] = {
    # each room, and what it may know; its own files always
    "errors": (),
    "records": (),
    "model": (),
    "mapped": (),
    "nodes": (),
    "target": ("mapped", "model", "nodes"),
    "memory": ("errors", "nodes", "read_ahead", "target"),
    "region_index": ("target",),
    "meter": (),
    "crew": ("meter",),
    "printable": (),
    "read_ahead": ("errors",),
    "whole_file": ("errors",),
    "words": ("errors",),
    "arguments": ("errors", "words"),
    "sources/elf": LOW,
    "sources/core": (*LOW, "sources/elf", "sources", "whole_file"),
    "sources/live": (*LOW, "sources/elf", "sources/core", "sources"),
    "sources": (*LOW, "sources/elf", "sources/core", "sources/live"),
    "glibc": LOW,
    "glibc/chunks": (*LOW, "glibc"),
    "glibc/check": (*LOW, "glibc", "glibc/chunks"),
    "glibc/derive": (*LOW, "glibc"),
    "glibc/find": (*LOW, "glibc", "glibc/derive", "sources/elf"),
    "recognise": (*LOW, "sources/elf"),
    "session": (*LOW, *GLIBC, "sources/elf"),
    "before_hold": (*LOW, *GLIBC, "session"),
    "analysis": ("errors", "mapped", "model", "target", "glibc", "recognise"),
    # render/json.py's envelope says what was looked at, and how it was found
    "render": ("errors", "model", "printable", "target", "glibc", "glibc/find", "render/pages"),
    "render/pages": ("printable",),
    "gather": (*LOW, *GLIBC, "recognise", "session", "analysis", "render", "sources/elf"),
    "graph": (*LOW, *GLIBC, "session", "analysis", "gather", "recognise", "render", "sources/elf"),
    "apply": (*LOW, *GLIBC, "session", "gather", "sources/live"),
    "saving": (*LOW, "session", "gather", "render", "sources", "sources/core", "sources/live", "whole_file"),
    "audit": (*LOW, *GLIBC, "session", "analysis", "gather"),
    "door": ("target", "render", "apply"),
    "command": (*LOW, "__init__", "arguments", "door", "session", "before_hold", "render", "commands"),
    # a process copied, and read from the copy
    "apart": (
        *LOW,
        "whole_file",
        "command",
        "session",
        "gather",
        "graph",
        "render",
        "sources",
        "sources/core",
        "sources/elf",
        "sources/live",
    ),
    # of a small core the same without being asked
    "unasked": ("command", "gather", "graph", "apart"),
    "overview": ("arguments", "command", "errors", "glossary"),
    "glossary": ("arguments",),
    "load_once": (),
    "debugger_door": ("command", "errors", "load_once"),
    "screens": (*LOW, *GLIBC, "recognise", "analysis", "render", "gather", "graph", "apply"),
    # what a document of each command says; read by scripts and tests alone
    "documents": ("commands", "command", "analysis", "render", "model", "recognise", "snapshot"),
    "snapshot": ("errors", "whole_file", "words"),
    "engines": (
        "arguments",
        "command",
        "errors",
        "fault",
        "fleet",
        "analysis",
        "printable",
        "records",
        "render",
        "sources/core",
        "whole_file",
        "words",
    ),
    "moments": ("errors", "records", "snapshot"),
    # what several commands say, on one page
    "ticket": (
        *LOW,
        "apart",
        "command",
        "gather",
        "glossary",
        "graph",
        "render",
        "render/pages",
        "screens",
        "whole_file",
    ),
    "commands": (
        *LOW,
        *GLIBC,
        "__init__",
        "recognise",
        "session",
        "analysis",
        "render",
        "render/pages",
        "gather",
        "graph",
        "screens",
        "apart",
        "unasked",
        "ticket",
        "apply",
        "audit",
        "saving",
        "command",
        "snapshot",
        "moments",
        "whole_file",
    ),
}
"""From the bottom up. What is not listed is the shell's door: it may know all."""


def room_of(name: str) -> str:
    """A module's folder; the module itself where it stands in the package's own."""
    return name if name in ROOMS else name.rpartition("/")[0] or name


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_may_know(room: str) -> None:
    files = [name for name in graph() if room_of(name) == room]
    assert files
    for name in files:
        for target in graph()[name]:
            assert room_of(target) in (*ROOMS[room], room, "records"), f"{name} imports {target}"


def test_every_room_is_listed() -> None:
    assert {room_of(name) for name in graph() if "/" in name} <= {*ROOMS}


def test_the_tree_is_as_drawn() -> None:
    """docs/architecture.md draws every room and every module that stands in none; the structures of glibc, too."""
    drawing = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
    drawn = set(re.findall(r"[a-z_]+(?:/|\.py)?", drawing))
    rooms = {f"{room.rpartition('/')[2]}/" for room in {room_of(name) for name in graph()} if (PACKAGE / room).is_dir()}
    alone = {f"{name}.py" for name in graph() if "/" not in name and name != "__init__"}
    structures = {
        name.partition("/")[2] for name in graph() if room_of(name) == "glibc" and not name.endswith("__init__")
    }
    assert not {*rooms, *alone, *structures} - drawn
    assert {each for each in drawn if each.endswith("/")} - {*rooms, "gdb/", "lldb/"} == {"docs/", "proc/"}
    assert {each for each in drawn if each.endswith(".py")} <= alone


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
        assert {each for each in gone if not each.startswith("path/to/")} == set(), file


def test_where_you_go_is_there() -> None:
    """CONTRIBUTING.md: each path of the list leads somewhere, each name of an entry stands in a file of that entry."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where you go\n")[2].partition("\n## ")[0]
    entries = re.findall(r"^- \*\*.*\n(?:  .*\n)*", section + "\n", re.MULTILINE)
    assert len(entries) == 14
    for entry in entries:
        assert entry.count("\n") == 2, entry
        told = re.findall(r"`([^`]+)`", entry.partition(".** ")[2])
        paths = {each for each in told if "/" in each or each.endswith((".py", ".c", ".md"))}
        found = [folder / each for each in paths for folder in (PACKAGE, ROOT) if (folder / each).exists()]
        assert len(found) == len(paths), entry
        files = [each for place in found for each in (place.glob("*.py") if place.is_dir() else [place])]
        text = "\n".join(each.read_text() for each in [*files, PACKAGE / "command.py"])
        names = {each for each in told if each not in paths and not each.startswith(("make ", "@"))}
        assert {name for name in names if not re.search(rf"\b{name}\b", text)} == set(), entry


def test_what_render_and_analysis_take_is_types_alone() -> None:
    """Located and Target are annotations there: nothing of them runs."""
    users = {name for name in graph() if name.startswith("render/") and graph()[name] & {"glibc/find/locate", "target"}}
    assert users <= {"render/json"}
    for name in graph():
        if name.startswith("analysis/"):
            used = {node.attr for node in ast.walk(trees()[name]) if isinstance(node, ast.Attribute)}
            assert not used & {"read", "try_word", "words", "node", "u32", "symbol", "thread_local"}, name


def test_screens_take_a_style_and_data() -> None:
    """Neither a context nor a session: what is said was read before."""
    for name in graph():
        if name.startswith("screens/"):
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
        assert "vars" not in called or name in ("session", "commands/report"), name


def test_what_only_reads_does_not_know_what_calls() -> None:
    """In the shell, in commands/__init__ and in the text it is a type alone."""
    users = {name for name in graph() if "apply" in graph()[name]}
    assert users == {"commands/trim", "door", "screens/trim", "shell", "shell_callers", "shell_control"}


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
            assert name == "render/highlight", f"{name} imports {target}"
            assert id(node) not in top, f"{name} imports {target} at load time"


NOT_LOADED = {
    "ctypes",
    "dataclasses",
    "inspect",
    "json",
    "shutil",
    "tabulate",
    "tempfile",
    "textwrap",
    f"{OURS}.completion",
    f"{OURS}.fleet",
    f"{OURS}.watch",
    f"{OURS}.sources.live.process",
}
"""Each takes 1 to 10 of the 40 ms in which the shell starts, and each single dataclass half a millisecond."""


def loaded_by(*names: str) -> set[str]:
    """What these modules of ours load."""
    code = f"import sys, {', '.join(f'{OURS}.{each}' for each in names)}\nprint(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(PACKAGE.parent)!r})\n" + code],
            check=True,
            text=True,
            stdout=subprocess.PIPE,
        ).stdout.split()
    )


def test_the_shell_starts_with_what_a_look_at_a_core_needs() -> None:
    used = ("cli", "commands.chunks", "sources.core.image", "sources.shell_target")
    loaded = loaded_by(*used)
    assert f"{OURS}.session" in loaded
    assert not NOT_LOADED & loaded


ONLY_FOR_UNKNOWN_RELEASES = {f"{OURS}.glibc.derive.{each}" for each in ("state", "heaps", "lists", "params", "prove")}


def test_what_a_release_that_is_known_does_not_need_is_not_loaded() -> None:
    loaded = loaded_by("cli", "commands.arenas", "sources.live.target")
    assert sorted(ONLY_FOR_UNKNOWN_RELEASES & loaded) == []


def test_version_and_help_load_nothing_that_reads() -> None:
    read = {
        each for each in loaded_by("cli") if each.startswith((f"{OURS}.glibc", f"{OURS}.session", f"{OURS}.sources"))
    }
    assert not read


def test_records_are_named_tuples() -> None:
    """Those of records.py, which are made sooner than typing's; it takes annotations as they are written."""
    assert [
        name for name, tree in trees().items() for target, _ in imported(name, tree) if target == "dataclasses"
    ] == []
    for name, tree in trees().items():
        taken = {each.name: node for _, node in imported(name, tree) for each in getattr(node, "names", ())}
        if "NamedTuple" in taken and name != "records":
            source = taken["NamedTuple"]
            assert isinstance(source, ast.ImportFrom), name
            assert source.module == "records", name
            assert "annotations" in taken, name


def test_a_record_is_what_typing_makes_of_it() -> None:
    code = """
from __future__ import annotations
class Point(NamedTuple):
    "Where."
    x: int
    y: Optional[int] = None
    names: Mapping[str, int] = {}
    SIDES = 2

    @property
    def sum(self) -> int:
        return self.x + (self.y or 0)
"""
    made = []
    for source in (typing, records):
        space: dict[str, Any] = {"NamedTuple": source.NamedTuple, "__name__": __name__}
        exec(code, space)
        made.append(space["Point"])
    theirs, ours = made
    for each in ("__doc__", "__module__", "__qualname__", "__name__", "_fields", "_field_defaults", "__match_args__"):
        assert getattr(theirs, each, None) == getattr(ours, each, None), each
    for kind in made:
        assert (kind(1), kind(1, 2).sum, kind(x=3)._replace(y=4), kind.SIDES) == ((1, None, {}), 3, (3, 4, {}), 2)
        assert repr(kind(1)) == "Point(x=1, y=None, names={})"
        with pytest.raises(TypeError):
            kind()
        with pytest.raises(AttributeError):
            kind(1).x = 2
    assert list(theirs.__annotations__) == list(ours.__annotations__)


def is_version(node: ast.AST) -> bool:
    if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
        return False
    values = [each.value for each in node.elts if isinstance(each, ast.Constant)]
    return len(values) == 2 and values[0] == 2 and isinstance(values[1], int) and 10 <= values[1] <= 60


def test_versions_stand_in_one_file() -> None:
    found = {name for name, tree in trees().items() if any(is_version(node) for node in ast.walk(tree))}
    assert found == {"glibc/versions"}


LAST_RESORTS = ("cli.py", "fleet.py", "scrape.py", "work.py")
"""What nobody foresaw is caught once in each door, and becomes a line that can be sent (fault.py)."""


ENGINES = ("work.py",)
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
