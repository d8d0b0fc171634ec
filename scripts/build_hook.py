"""Makes what the wheel has and git does not: the man page, the shells' completion, the compiled engine.

Without a cargo the wheel is for any processor, and has no engine. ARENASCOPE_CPU names another processor than this
machine's.

hatchling runs this: pyproject.toml names it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MadeFromCode(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, str(Path(self.root) / "scripts"))
        import portable_engine
        from reference import write_for_package

        made = write_for_package(Path(self.root) / "build" / "package")
        if not portable_engine.can_build():
            self.app.display_warning("no cargo that is new enough (make engine says which): the wheel has no engine")
        elif version == "editable":
            portable_engine.build_here()
        else:
            cpu = os.environ.get("ARENASCOPE_CPU", os.uname().machine)
            library = portable_engine.build(cpu)
            if library is None:
                sys.exit(1)
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{portable_engine.platform_tag(library, cpu)}"
            build_data["force_include"][str(library)] = f"arenascope/{library.name}"
        if version != "editable":
            build_data["force_include"].update({str(path): name for name, path in made.items()})
