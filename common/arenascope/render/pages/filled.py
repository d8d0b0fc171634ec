"""A page's template with its data, in the one way in which nothing of the data becomes markup or script."""

from __future__ import annotations

import json
import pkgutil
import re
from typing import Mapping


def filled(template: str, data: Mapping[str, object], title: str = "") -> bytes:
    # before the data comes in: nothing of it is ever looked through for such words
    page = re.sub(r"@INCLUDE ([a-z_]+\.\w+)@", lambda found: _read(found[1]), _read(template))
    # "<" would end the script element, or start a comment in it: names of threads and types are anybody's
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return page.replace("@TITLE@", title).replace("@DATA@", text).encode()


def _read(name: str) -> str:
    data = pkgutil.get_data(__package__, name)
    assert data is not None
    return data.decode()


def title_of(what: str, data: Mapping[str, object]) -> str:
    return f"{what} of {data['kind']} process {data['pid'] if data['pid'] is not None else '?'}"
