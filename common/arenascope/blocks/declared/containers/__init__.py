"""Containers of standard libraries, in debug information: a file for each library.

A container is recognised by its template's name and by the members that it really has there; all offsets are debug
information's. It proves itself by its own words before it claims anything.
"""

from __future__ import annotations

from typing import Sequence

from ..claims import Library
from .libcxx import LIBCXX
from .libstdcxx import LIBSTDCXX
from .rust import Rust

LIBRARIES: Sequence[Library] = (LIBSTDCXX, LIBCXX, Rust())
