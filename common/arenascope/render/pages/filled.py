"""A page's template with its data, in the one way in which nothing of the data becomes markup or script."""

from __future__ import annotations

import json
import pkgutil
from typing import Mapping


def filled(template: str, data: Mapping[str, object], title: str = "") -> bytes:
    page = pkgutil.get_data(__package__, template)
    assert page is not None
    # "<" would end the script element, or start a comment in it: names of threads and types are anybody's
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return page.decode().replace("@TITLE@", title).replace("@DATA@", text).encode()


def title_of(what: str, data: Mapping[str, object]) -> str:
    return f"{what} of {data['kind']} process {data['pid'] if data['pid'] is not None else '?'}"
