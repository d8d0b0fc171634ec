"""Which files of the product may say `Any`: mypy takes that for every type, and checks nothing where it stands."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for folder in ("common/arenascope", "gdb", "lldb") for path in sorted((ROOT / folder).rglob("*.py"))]

EDGES = {
    "what JSON says, whose form was checked when it was read": ("common/arenascope/analysis/figure_names.py",),
    "JSON that is checked here, or a description of it": (
        "common/arenascope/cli/mcp_tools.py",
        "common/arenascope/commands/steps/snapshot_file.py",
        "common/arenascope/present/json_documents/schemas.py",
    ),
    "objects of optional libraries: dask, fsspec, mcp, prometheus_client, pyarrow, ray, tabulate, tqdm": (
        "common/arenascope/cli/engines/by_dask.py",
        "common/arenascope/cli/engines/by_ray.py",
        "common/arenascope/cli/engines/remote_core.py",
        "common/arenascope/cli/engines/which_cores.py",
        "common/arenascope/cli/engines/fleet.py",
        "common/arenascope/cli/engines/parquet_table.py",
        "common/arenascope/cli/mcp_server.py",
        "common/arenascope/cli/metrics.py",
        "common/arenascope/present/shared_text/progress_bar.py",
        "common/arenascope/present/shared_text/table_forms.py",
    ),
    "what argparse takes": ("common/arenascope/commands/framework/arguments.py",),
    "functions that GDB and LLDB call, and what these give": (
        "gdb/heap_mi.py",
        "lldb/arena.py",
        "lldb/heap_commands.py",
    ),
    "a decorator of any function": ("lldb/heap_target.py",),
}
"""Where types of others begin; by the reason."""


def says_any(tree: ast.AST) -> bool:
    """Whoever says it imports it, or says where it is from."""
    return any(
        (isinstance(node, ast.alias) and node.name == "Any") or (isinstance(node, ast.Attribute) and node.attr == "Any")
        for node in ast.walk(tree)
    )


def test_any_is_seen() -> None:
    for text in ("from typing import Any", "from typing import Any as What", "import typing\nx: typing.Any = 1"):
        assert says_any(ast.parse(text)), text
    assert not says_any(ast.parse('"""Any."""\nfrom typing import AnyStr\nx: object = "Any"'))


def test_any_stands_only_where_it_is_listed() -> None:
    """A file that no longer says it leaves the list."""
    listed = [path for group in EDGES.values() for path in group]
    found = [path.relative_to(ROOT).as_posix() for path in SOURCES if says_any(ast.parse(path.read_text()))]
    assert sorted(listed) == sorted(found)
