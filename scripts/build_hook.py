"""Makes the man page and the shells' completion for the wheel, as git does not keep them.

hatchling runs this: pyproject.toml names it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MadeFromCode(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, str(Path(self.root) / "scripts"))
        from reference import write_for_package

        made = write_for_package(Path(self.root) / "build" / "package")
        if version != "editable":
            build_data["force_include"].update({str(path): name for name, path in made.items()})
