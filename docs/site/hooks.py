"""Hooks of MkDocs: pages that read well on GitHub become pages of the site.

Links to files outside of `docs` become links to the repository, pictures with a light and a dark
source follow the palette of the site, lines that rustdoc hides are hidden, and the Rust documentation
in the folder that the environment variable ALEATRON_RUSTDOC names becomes a part of the site.
"""

from __future__ import annotations

import os
import pathlib
import posixpath
import re
import shutil
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.nav import Link, Section

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUST = "rust/aleatron/index.html"

PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(?P<dark>[^"]+)">\s*'
    r'<img alt="(?P<alt>[^"]*)" src="(?P<light>[^"]+)">\s*</picture>'
)
RUST_BLOCK = re.compile(r"^```rust\n.*?^```$", flags=re.MULTILINE | re.DOTALL)
HIDDEN = re.compile(r"^# .*\n", flags=re.MULTILINE)
LINK = re.compile(r"\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrites the pictures, the links and the Rust code of a page."""
    folder = posixpath.dirname(page.file.src_uri)

    def link(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, match["target"]))
        if path.startswith("docs/") and not path.endswith(".py"):
            return match[0]
        if path.startswith("..") or not (ROOT / path).exists():
            raise PluginError(f"{page.file.src_uri}: {match['target']} does not exist")
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({config.repo_url}/{kind}/main/{path}{match['anchor'] or ''})"

    def picture(match: re.Match[str]) -> str:
        return f"![{match['alt']}]({match['light']}#only-light)\n![{match['alt']}]({match['dark']}#only-dark)"

    markdown = RUST_BLOCK.sub(lambda block: HIDDEN.sub("", block[0]), markdown)
    return PICTURE.sub(picture, LINK.sub(link, markdown))


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """Adds the Rust documentation to the reference."""
    if "ALEATRON_RUSTDOC" in os.environ:
        (section,) = (item for item in nav.items if isinstance(item, Section) and item.title == "Reference")
        section.children.insert(2, Link("Rust API", RUST))
    return nav


def on_post_build(config: Any) -> None:
    """Copies the Rust documentation into the site."""
    if "ALEATRON_RUSTDOC" in os.environ:
        shutil.copytree(os.environ["ALEATRON_RUSTDOC"], pathlib.Path(config.site_dir) / "rust")
