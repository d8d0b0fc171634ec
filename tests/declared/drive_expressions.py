"""Runs inside GDB: what GDB itself tells of each of the expressions in expressions.json in FOLDER, with GCC's printers
for containers, goes to told.json. WHAT it tells: "place", the address and size of the object, and where it points; or
"said", its value."""

import json
import re
import sys
from pathlib import Path

import gdb

FOLDER = Path(globals()["FOLDER"])
PRINTERS = "/usr/share/gcc/python"
STEP = re.compile(r'(?:->|\.)(?P<member>\w+)|\[(?P<key>"(?:[^"\\]|\\.)*"|[^\]]*)\]')
START = re.compile(r"(?:thread (?P<tid>\d+) frame (?P<frame>\d+) )?(?:(?P<function>\w+)\(\): )?(?P<name>\w+)")
POINTERS = (
    "_M_dataplus._M_p",
    "_M_impl._M_start",
    "_M_impl._M_start._M_first",
    "_M_impl._M_map",
    "_M_h._M_buckets",
    "_M_refcount._M_pi",
    "_M_t._M_t._M_head_impl",
)
"""Of containers: what leads to their blocks."""
SCALARS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF)
COUNTS = ("_M_t._M_impl._M_node_count", "_M_h._M_element_count")
children_of = {}


def plain(value):
    return value.referenced_value() if value.type.strip_typedefs().code == gdb.TYPE_CODE_REF else value


def text_of(value):
    printer = gdb.default_visualizer(value)
    said = printer.to_string() if printer is not None else str(value)
    return said.value().string(length=said.length) if hasattr(said, "value") else str(said)


def matches(value, key):
    value = plain(value)
    if key[0] == '"':
        return text_of(value) == json.loads(key)
    code = value.type.strip_typedefs().code
    if code == gdb.TYPE_CODE_ENUM:
        return str(value).rpartition("::")[2] == key
    return (float(value) == float(key)) if code == gdb.TYPE_CODE_FLT else int(value) == int(key)


def element(value, key):
    if value.type.strip_typedefs().code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_ARRAY):
        return value[int(key)]
    place, template = int(value.address), value.type.strip_typedefs().name.partition("<")[0]
    if place not in children_of:
        children_of[place] = list(elements(value, template))
    found = children_of[place]
    if template.endswith("map"):
        (pair,) = [each for each in found if matches(each["first"], key)]
        return pair
    if template.endswith("set"):
        (one,) = [each for each in found if matches(each, key)]
        return one
    return found[int(key.lstrip("#"))]


def elements(value, template):
    """GCC's printers ask for the nodes' types by names that GDB does not always find."""
    if template.endswith(("map", "set")):
        inner = value["_M_h" if "unordered" in template else "_M_t"]
        kept = inner.type.strip_typedefs().template_argument(1)
        for node, front in hashed(inner) if "unordered" in template else ordered(inner):
            yield gdb.Value(node + max(front, kept.alignof)).cast(kept.pointer()).dereference()
        return
    for _, each in gdb.default_visualizer(value).children():
        yield plain(each)


def hashed(table):
    node = table["_M_before_begin"]["_M_nxt"]
    while int(node):
        yield int(node), node.type.sizeof
        node = node["_M_nxt"]


def ordered(tree):
    header = tree["_M_impl"]["_M_header"]
    left = [header["_M_parent"]]
    while left:
        node = left.pop()
        if int(node):
            yield int(node), header.type.sizeof
            left += [node["_M_left"], node["_M_right"]]


def pointed(value):
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR:
        value = value.dereference()
    elif "_ptr" in str(value.type.strip_typedefs()).partition("<")[0]:
        ((_, pointer),) = gdb.default_visualizer(value).children()
        value = pointer.dereference()
    return value.cast(value.dynamic_type)


def begin(found):
    if found["tid"]:
        (thread,) = [each for each in gdb.selected_inferior().threads() if each.ptid[1] == int(found["tid"])]
        thread.switch()
    if not found["function"]:
        return gdb.parse_and_eval(found["name"])
    frame, number = gdb.newest_frame(), 0
    while frame is not None:
        if found["frame"] in (None, str(number)) and (frame.name() or "").partition("(")[0] == found["function"]:
            return frame.read_var(found["name"])
        frame, number = frame.older(), number + 1
    raise LookupError(found["function"])


def place(expression):
    found = START.match(expression)
    value, at = begin(found), found.end()
    while at < len(expression):
        step = STEP.match(expression, at)
        at = step.end()
        if step["member"]:
            value = pointed(value)[step["member"]]
        else:
            value = element(value, step["key"])
    return [int(value.address), value.type.sizeof, leads(value)]


def leads(value):
    code = value.type.strip_typedefs().code
    found = [int(value)] if code == gdb.TYPE_CODE_PTR else []
    for path in POINTERS:
        inner = value
        try:
            for name in path.split("."):
                inner = inner[name]
            found.append(int(inner))
        except (gdb.error, TypeError):
            pass
    return found


def said(expression):
    """What GDB says of a value: a number, a text, or both. Of containers GCC's printers say how many elements they
    have."""
    value = gdb.parse_and_eval(in_full(expression))
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
    sys.path.insert(0, PRINTERS)
    from libstdcxx.v6.printers import register_libstdcxx_printers

    register_libstdcxx_printers(None)
    tell = {"place": place, "said": said}[globals()["WHAT"]]
    if tell is said:
        # the innermost function is libc's, and in C no name has "::"
        gdb.execute("set language c++")
    told = {}
    for expression in json.loads((FOLDER / "expressions.json").read_text()):
        try:
            told[expression] = tell(expression)
        except Exception as error:  # whatever it is, the test says of which
            told[expression] = {"error": repr(error)}
    (FOLDER / "told.json").write_text(json.dumps(told))


main()
