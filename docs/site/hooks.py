"""Hooks of MkDocs: pages that read well on GitHub become pages of the site.

Links to files outside of `docs` become links to the repository, pictures with a light and a dark
source follow the palette of the site, lines that rustdoc hides are hidden, terms of the glossary have
their meaning as a tooltip, and the Rust documentation in the folder that the environment variable
ALEATRON_RUSTDOC names becomes a part of the site.
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
TERM = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", flags=re.MULTILINE)
# Names of one common word, such as "layer" or "scale", would be marked in every line.
SPECIAL = re.compile(r"[A-Z]{2}|[a-zA-Z][ -][a-zA-Z]")
LINK = re.compile(r"\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


def tooltips() -> str:
    """Returns the special terms of the glossary with their meanings as abbreviations of Markdown."""
    lines = []
    for names, meaning in TERM.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")):
        meaning = re.sub(r" \[[A-Z]{1,3}\d\d?b?(, [A-Z]{1,3}\d\d?b?)*\]", "", meaning)
        meaning = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", meaning).replace("`", "").replace("*", "")
        for name in re.split(r", | \(|\)", names):
            # "SC" is a part of names of other systems.
            if SPECIAL.search(name) and name != "SC" and not meaning.startswith("See "):
                lines += [f"*[{name}]: {meaning}", f"*[{name}s]: {meaning}"]
    return "\n".join(lines)


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
    markdown = PICTURE.sub(picture, LINK.sub(link, markdown))
    return markdown if page.file.src_uri == "glossary.md" else f"{markdown}\n\n{tooltips()}\n"


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
