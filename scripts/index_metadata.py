"""What an index of packages shows: the project's addresses, and README with links that lead somewhere from there.

hatchling runs this: pyproject.toml names it. The address is `repository` there; while that is empty, there are no URLs,
and README stays as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")
"""What a link or picture leads to, but an address or a place on the same page."""
PICTURES = (".svg", ".png")


def absolute(text: str, repository: str, tag: str) -> str:
    """A picture has to be the file itself, and all else the page that shows it."""

    def address(link: re.Match[str]) -> str:
        kind = "raw" if link[1].endswith(PICTURES) else "blob"
        return f"]({repository}/{kind}/{tag}/{link[1]})"

    return LINK.sub(address, text)


class IndexMetadata(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository, tag = self.config["repository"].rstrip("/"), f"v{metadata['version']}"
        if repository:
            readme = absolute(readme, repository, tag)
            metadata["urls"] = {
                "Homepage": repository,
                "Documentation": f"{repository}/blob/{tag}/docs/README.md",
                "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
                "Source": repository,
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
