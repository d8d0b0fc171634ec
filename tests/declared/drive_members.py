"""Runs inside GDB: what GDB itself says of each expression in members.json in FOLDER goes to values.json: a number, a
text, or both. Of containers GCC's printers say how many elements they have."""

import json
import re
import sys
from pathlib import Path

import gdb

FOLDER = Path(globals()["FOLDER"])
SCALARS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF)
COUNTS = ("_M_t._M_impl._M_node_count", "_M_h._M_element_count")


def said(value):
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ENUM:
        return {"number": int(value), "text": str(value).rpartition("::")[2]}
    if kind.code == gdb.TYPE_CODE_FLT:
        return {"number": float(value)}
    if kind.code in SCALARS:
        number = int(value.cast(gdb.lookup_type("long")) if kind.code == gdb.TYPE_CODE_CHAR else value)
        target = kind.target().strip_typedefs() if kind.code == gdb.TYPE_CODE_PTR else None
        is_text = target is not None and target.sizeof == 1 and target.name in ("char", "unsigned char") and number
        return {"number": number, **(text_at(value) if is_text else {})}
    if kind.code == gdb.TYPE_CODE_ARRAY:
        return {"text": value.string("latin-1").partition("\0")[0]}
    template = (kind.name or "").partition("<")[0]
    if template.endswith("_ptr"):
        ((_, pointer),) = gdb.default_visualizer(value).children()
        return {"number": int(pointer)}
    for path in COUNTS:
        inner = value
        try:
            for name in path.split("."):
                inner = inner[name]
            return {"elements": int(inner)}
        except gdb.error:
            pass
    printer = gdb.default_visualizer(value)
    if template.endswith("basic_string"):
        text = printer.to_string()
        return {"text": text.value().string("latin-1", length=text.length) if hasattr(text, "value") else str(text)}
    return {"elements": sum(1 for _ in printer.children())}


def text_at(value):
    try:
        return {"text": value.string("latin-1")}
    except gdb.MemoryError:
        return {}


def in_full(expression):
    """C's structs are not known by their names alone."""
    name = re.match(r"\(\(([^*]+) \*\)", expression)[1]
    for kind in ("struct", "union"):
        try:
            gdb.lookup_type(f"{kind} {name}")
            return expression.replace(name, f"{kind} {name}", 1)
        except gdb.error:
            pass
    return expression


def main():
    sys.path.insert(0, "/usr/share/gcc/python")
    from libstdcxx.v6.printers import register_libstdcxx_printers

    register_libstdcxx_printers(None)
    # the innermost function is libc's, and in C no name has "::"
    gdb.execute("set language c++")
    values = {}
    for expression in json.loads((FOLDER / "members.json").read_text()):
        try:
            values[expression] = said(gdb.parse_and_eval(in_full(expression)))
        except Exception as error:  # whatever it is, the test says of which
            values[expression] = {"error": repr(error)}
    (FOLDER / "values.json").write_text(json.dumps(values))


main()
