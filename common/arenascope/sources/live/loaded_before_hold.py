"""What a look at a live process may need while it holds it, loaded before: a module takes a millisecond and more.

What a command's own file imports at its top is loaded before as well. A look at a core loads each of these where it
first needs it, and most never do. test_nothing_is_loaded_while_the_process_is_held sees what is missing here.
"""
# ruff: noqa: F401

from __future__ import annotations

import json
import queue
import threading

from .. import types_by_gdb
from . import kernel_pointers
