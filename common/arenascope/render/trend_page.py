"""The page of `heap trend --html`: one file with style, script and data in it, which asks the network for nothing."""

from __future__ import annotations

import json
import pkgutil
from typing import Mapping, Sequence

TEMPLATE = "trend.html"


def page(keys: Mapping[str, object], labels: Mapping[str, str], problems: Sequence[str]) -> bytes:
    """Of the command's document: the page shows its figures and no others. `labels`: what parts are, in words."""
    template = pkgutil.get_data(__package__, TEMPLATE)
    assert template is not None
    # "<" would end the script element, or start a comment in it: names are anybody's
    data = json.dumps({**keys, "labels": labels, "problems": problems}, separators=(",", ":")).replace("<", "\\u003c")
    return template.decode().replace("@DATA@", data).encode()
