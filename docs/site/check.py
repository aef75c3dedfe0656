"""Checks every internal link and anchor of the built site, and those of Markdown files outside of it.

    python docs/site/check.py target/site

MkDocs checks links between pages in its strict mode. This program reads what it wrote, so that
menus, pictures, raw HTML and the Rust documentation are checked as well.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

from pymdownx.slugs import slugify

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLUG = slugify(case="lower")


class Page(HTMLParser):
    """Collects the anchors and the links of a page."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None:
                self.links.append(value)


def site(folder: pathlib.Path) -> list[str]:
    """Returns the dead links of a built site. Pages of the Rust documentation are targets only: rustdoc checks them."""
    rust = folder / "rust"
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html")) if rust not in path.parents}
    if len(pages) < 20:
        raise SystemExit(f"{folder} has {len(pages)} pages: build the site first")
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            # The page of missing files is shown at any address: its links are absolute.
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                dead.append(f"{path.relative_to(folder)}: {link} does not exist")
            elif parts.fragment and target in pages and parts.fragment not in ("only-light", "only-dark", "__"):
                if unquote(parts.fragment) not in pages[target].anchors:
                    dead.append(f"{path.relative_to(folder)}: {link} has no such anchor")
    return dead


def headings(text: str) -> set[str]:
    """Returns the anchors that GitHub gives to the headings of a Markdown file."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE):
        slug = base = SLUG(re.sub(r"[`*]|\]\([^)]*\)|\[", "", title), "-")
        number = 0
        while slug in found:
            number += 1
            slug = f"{base}-{number}"
        found.add(slug)
    return found


def repository() -> list[str]:
    """Returns the dead links between Markdown files of the repository, as a reader on GitHub follows them."""
    names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    dead = []
    for name in names.splitlines():
        text = re.sub(r"^```.*?^```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]+)"', text)
        for link in links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = ((ROOT / name).parent / unquote(parts.path)).resolve() if parts.path else ROOT / name
            if not target.exists():
                dead.append(f"{name}: {link} does not exist")
            elif parts.fragment and target.suffix == ".md" and parts.fragment not in headings(target.read_text()):
                dead.append(f"{name}: {link} has no such anchor")
    return dead


def main() -> None:
    dead = repository() + site(pathlib.Path(sys.argv[1]).resolve())
    if dead:
        raise SystemExit("\n".join(dead))


if __name__ == "__main__":
    main()
