"""What MkDocs asks when it makes the site (`make docs-site`): pages from outside docs/ come along, and no link is dead.

MkDocs itself holds links between pages against their headings; here the finished pages are gone through once more, as a
browser would: links in tables, pictures and what the theme brings included. Nothing may come from another machine.
"""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Optional
from urllib.parse import unquote, urlsplit

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "examples")
"""Files and folders beside docs/ that its pages lead to."""
PLACES = {"common/arenascope/present/glossary.md": "glossary.md"}
"""Other files that its pages lead to, and where the site has them."""
STYLE = ".md-grid{max-width:76rem}.md-typeset pre>code{font-size:.6rem}"
"""Screens are a hundred columns wide and more."""
LINK = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)(?=[)#])")


def outside() -> list[str]:
    paths = [ROOT / name for name in OUTSIDE]
    files = [each for path in paths for each in (sorted(path.iterdir()) if path.is_dir() else [path])]
    return [each.relative_to(ROOT).as_posix() for each in files if each.is_file()]


def on_files(files: Any, config: Any) -> Any:
    for name in outside():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for name, place in PLACES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, "site.css", content=STYLE))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links as they are in the checkout lead to the same in the site."""
    here = page.file.src_uri
    kept = {place: name for name, place in PLACES.items()}
    there = kept.get(here, here if here in outside() else f"docs/{here}")

    def moved(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(there), link["path"]))
        path = PLACES.get(path, path[len("docs/") :] if path.startswith("docs/") else path)
        return posixpath.relpath(path, posixpath.dirname(here) or ".")

    return LINK.sub(moved, markdown)


class Links(HTMLParser):
    """What a page leads to, what it is made with, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.parts: list[str] = []
        self.names: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, Optional[str]]]) -> None:
        told = {name: value for name, value in attributes if value is not None}
        self.names |= {told[name] for name in ("id", "name") if name in told}
        if tag == "a" and "href" in told:
            self.links.append(told["href"])
        elif "src" in told:
            self.parts.append(told["src"])
        elif tag == "link" and told.get("rel") in ("stylesheet", "icon"):
            self.parts.append(told["href"])


def on_post_build(config: Any) -> None:
    site = Path(config.site_dir)
    pages = {path: Links(path.read_text()) for path in sorted(site.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        # to be served at any address, its links begin at the root
        if path.name == "404.html":
            continue
        for link in [*page.links, *page.parts]:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                if link in page.parts and address.scheme != "data":
                    dead.append(f"{path.relative_to(site)}: takes {link} from another machine")
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                dead.append(f"{path.relative_to(site)}: {link}")
            elif target in pages and address.fragment and unquote(address.fragment) not in pages[target].names:
                dead.append(f"{path.relative_to(site)}: {link} (no such place)")
    if dead:
        raise PluginError("dead links:\n" + "\n".join(dead))
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values()):,} links: none is dead")
