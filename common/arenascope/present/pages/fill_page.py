"""Writes a page: a frame that all pages share, with the page's own style, body, data and script.

Page NAME consists of NAME.html, which stands between the frame's head and the data, NAME.css after frame.css, and
NAME.js after frame.js, which has what pages share. Files that only some pages share are included (strips.*). The data
has `problems`, a list of sentences, which the frame shows.
"""

from __future__ import annotations

import json
import pkgutil
import re
from binascii import b2a_base64
from itertools import groupby
from typing import Mapping, Optional, Sequence

from ...base.printable import printable
from ..pprof import varint


def filled(name: str, data: Mapping[str, object], title: str) -> bytes:
    """Fills the data in so that none of it can become markup or script."""
    # "<" could end the script element or start a comment in it: names of threads and types can be anything
    text = printable(json.dumps(data, ensure_ascii=False, separators=(",", ":"))).replace("<", "\\u003c")
    parts = {
        "TITLE": title.replace("&", "&amp;").replace("<", "&lt;"),
        "SHARED_STYLE": _file("frame.css"),
        "STYLE": _file(f"{name}.css"),
        "BODY": _file(f"{name}.html"),
        "DATA": text,
        "SHARED_SCRIPT": _file("frame.js"),
        "SCRIPT": _file(f"{name}.js"),
    }
    # replace all at once: a part filled in is not searched again
    return re.sub("@([A-Z_]+)@", lambda mark: parts[mark[1]], _file("frame.html")).encode()


def _file(name: str) -> str:
    content = pkgutil.get_data(__package__, name)
    assert content is not None
    return re.sub(r"@INCLUDE ([a-z_]+\.\w+)@", lambda mark: _file(mark[1]), content.decode().rstrip("\n"))


def title_of(what: str, data: Mapping[str, object]) -> str:
    return f"{what} of {data['kind']} process {data['pid'] if data['pid'] is not None else '?'}"


def packed(row: Mapping[str, object]) -> dict[str, object]:
    """A heap as the template's script takes it."""
    return {**row, "layers": _packed(row["layers"])}


def _packed(layers: object) -> dict[str, Optional[str]]:
    """Layers that are not all zero. None stands for a layer that is not known."""
    assert isinstance(layers, dict)
    return {
        name: pack(cells) if cells is not None else None
        for name, cells in layers.items()
        if cells is None or any(cells)
    }


def pack(cells: Sequence[int]) -> str:
    """Packs runs of one value: twice the value, plus 1 if the run's length follows; numbers as LEB128, then base64."""
    packed = bytearray()
    for value, run in groupby(cells):
        times = sum(1 for _ in run)
        packed += varint(2 * value + (times > 1))
        if times > 1:
            packed += varint(times)
    return b2a_base64(packed, newline=False).decode()
