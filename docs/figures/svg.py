"""A small writer of SVG pictures in a light and a dark version."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class Theme(NamedTuple):
    """The colours of one version of a picture."""

    name: str
    background: str
    text: str
    muted: str
    grid: str
    lines: Sequence[str]


# The line colours are those of Okabe and Ito, which readers with colour vision deficiencies can tell apart;
# those of the dark version are lighter.
THEMES = [
    Theme("light", "#ffffff", "#1b1f24", "#57606a", "#d8dee4", ["#0072b2", "#d55e00", "#009e73", "#aa3377", "#7a6a00"]),
    Theme("dark", "#161b22", "#e6edf3", "#9da7b3", "#30363d", ["#56b4e9", "#f0883e", "#3fc89b", "#e29bc9", "#e3cf57"]),
]

FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, monospace"


class Picture:
    """Collects the shapes of a picture."""

    def __init__(self, width: int, height: int, theme: Theme, title: str) -> None:
        self.theme = theme
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' role="img" font-family="{escape(FONT)}" font-size="15">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{theme.background}"/>',
        ]

    def text(self, x: float, y: float, words: str, *, fill: str = "", anchor: str = "start", size: float = 15, extra: str = "") -> None:
        """Writes a line of text with its baseline at y."""
        fill = fill or self.theme.text
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" fill="{fill}" text-anchor="{anchor}" font-size="{size:g}" {extra}>{escape(words)}</text>'
        )

    def line(self, points: Sequence[tuple[float, float]], *, stroke: str, width: float = 2, dash: str = "", arrow: str = "") -> None:
        """Draws a line through points; `arrow` is the fill of a head at its end."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{width:g}" stroke-linejoin="round"{dashes}/>'
        )
        if arrow:
            (x0, y0), (x1, y1) = points[-2:]
            angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
            self.parts.append(
                f'<path d="M0,0 L-9,-4.5 L-9,4.5 Z" fill="{arrow}" transform="translate({x1:.1f},{y1:.1f}) rotate({angle:g})"/>'
            )

    def shape(self, element: str) -> None:
        """Adds an element of SVG as it is."""
        self.parts.append(element)

    def finish(self) -> str:
        """Returns the file."""
        return "\n".join([*self.parts, "</svg>"]) + "\n"


class Axes:
    """A chart with stream lengths on a logarithmic horizontal axis."""

    def __init__(self, picture: Picture, lengths: Sequence[int], *, label: str) -> None:
        self.picture, self.lengths = picture, lengths
        self.left, self.right, self.top, self.bottom = 74.0, 600.0, 52.0, 338.0
        for length in lengths:
            x = self.x(length)
            picture.line([(x, self.top), (x, self.bottom)], stroke=picture.theme.grid, width=1)
            picture.text(x, self.bottom + 22, str(length), anchor="middle", fill=picture.theme.muted, size=14)
        picture.text((self.left + self.right) / 2, self.bottom + 48, "stream length L (bits)", anchor="middle")
        picture.text(self.left - 56, self.top - 22, label)

    def x(self, length: int) -> float:
        """Returns the horizontal position of a length."""
        low, high = math.log2(self.lengths[0]), math.log2(self.lengths[-1])
        return self.left + (math.log2(length) - low) / (high - low) * (self.right - self.left)

    def tick(self, y: float, words: str) -> None:
        """Draws a horizontal grid line with its label."""
        theme = self.picture.theme
        self.picture.line([(self.left, y), (self.right, y)], stroke=theme.grid, width=1)
        self.picture.text(self.left - 10, y + 5, words, anchor="end", fill=theme.muted, size=14)

    def curve(self, points: Sequence[tuple[int, float]], colour: str) -> None:
        """Draws a curve with a mark at each length; heights are positions in the picture."""
        places = [(self.x(length), y) for length, y in points]
        self.picture.line(places, stroke=colour, width=2.5)
        for x, y in places:
            self.picture.shape(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')

    def names(self, curves: Sequence[tuple[str, float, str]]) -> None:
        """Writes the names of curves at their right ends, moved apart if they would overlap."""
        previous = -math.inf
        for name, y, colour in sorted(curves, key=lambda curve: curve[1]):
            previous = max(y, previous + 19)
            self.picture.text(self.right + 14, previous + 5, name, fill=colour)
