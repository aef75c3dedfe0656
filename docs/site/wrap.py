"""Wraps the Markdown files of the repository at 100 columns.

    python docs/site/wrap.py            # writes the files
    python docs/site/wrap.py --check    # fails if a file would change

Paragraphs and list items are wrapped. Tables, code, headings and HTML stay as they are, and so do
pages that programs generate.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = 100
GENERATED = ["docs/cli.md", "docs/python/api.md"]
ITEM = re.compile(r"(?P<indent> *)(?P<mark>[-*] |\d+\. )(?P<text>.*)")
# Words that would begin a list, a heading or a quotation at the start of a line.
MARK = re.compile(r"([-+*]|\d+[.)]|#+|>.*|=+|-+|\|.*|<.*)$")


def fill(words: list[str], first: str, rest: str) -> list[str]:
    """Fills lines with words; no line begins with a word that Markdown would read as a mark."""
    lines, line = [], first + words[0]
    for index, word in enumerate(words[1:], 1):
        fits = len(line) + 1 + len(word) <= COLUMNS
        # A mark, which must stay behind the word before it.
        following = words[index + 1] if index + 1 < len(words) else ""
        if fits and following and MARK.match(following) and len(line) + len(word) + len(following) + 2 > COLUMNS:
            fits = False
        if fits or MARK.match(word):
            line += " " + word
        else:
            lines.append(line)
            line = rest + word
    return [*lines, line]


def wrap(text: str) -> str:
    """Returns the text of a file with its paragraphs wrapped."""
    lines: list[str] = []
    paragraph: list[str] = []
    first = rest = ""
    in_list = False
    fence = ""

    def flush() -> None:
        nonlocal first, rest
        words = " ".join(paragraph).split()
        if words:
            lines.extend(fill(words, first, rest))
        paragraph.clear()
        first = rest = ""

    for line in text.splitlines():
        stripped = line.strip()
        if fence or stripped.startswith("```"):
            flush()
            lines.append(line)
            if fence:
                fence = "" if stripped == fence else fence
            else:
                fence = "```"
            continue
        item = ITEM.fullmatch(line)
        is_code = line.startswith("    ") and not paragraph and not in_list
        if not stripped:
            flush()
            lines.append("")
        elif item and not is_code:
            flush()
            in_list = True
            first = item["indent"] + item["mark"]
            rest = " " * len(first)
            paragraph.append(item["text"])
        elif is_code or stripped.startswith(("|", "#", "<")):
            flush()
            in_list = in_list and line.startswith(" ")
            lines.append(line)
        else:
            if not paragraph:
                in_list = in_list and line.startswith(" ")
                first = rest = line[: len(line) - len(line.lstrip())]
            paragraph.append(stripped)
    flush()
    return "\n".join(lines) + "\n"


def main() -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    changed = []
    for name in names.splitlines():
        if name in GENERATED:
            continue
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = wrap(old)
        if new != old:
            changed.append(name)
            if sys.argv[1:] != ["--check"]:
                path.write_text(new, encoding="utf-8")
    if sys.argv[1:] == ["--check"] and changed:
        raise SystemExit(f"{', '.join(changed)}: run python docs/site/wrap.py")


if __name__ == "__main__":
    main()
