"""Draws the figures of the documentation as SVG files, in a light and a dark version.

    python docs/figures/figures.py            # needs the package aleatron
    python docs/figures/figures.py --check    # fails if a file is not current

Charts show what `aleatron eval --json` and `aleatron tables --json` compute, whose integers are the
same on every machine, and what the benchmarks measured on one machine (`performance.py`).
"""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import performance
from svg import MONO, THEMES, Axes, Picture, Theme

PROGRAM = [sys.executable, "-m", "aleatron"]
FOLDER = pathlib.Path(__file__).resolve().parent
A, B = "11010111", "10110100"
LENGTHS = [8, 16, 32, 64, 128, 256, 512]
PRODUCT_LENGTHS = [8, 16, 32, 64, 128, 256]
# The pairs of sequences in the chart of products, by their names in it.
PAIRS = {"LFSR": "lfsr:1+lfsr:142", "Halton": "vdc+halton:3", "Sobol": "sobol:1+sobol:2", "counter and vdc": "vdc+ramp"}


def program(*arguments: str) -> Any:
    """Returns the JSON that a command prints."""
    command = [*PROGRAM, *arguments, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def idea(theme: Theme, _: Any) -> str:
    """Draws two streams, the gate that multiplies them, and a counter."""
    product = "".join("1" if a + b == "11" else "0" for a, b in zip(A, B))
    picture = Picture(740, 232, theme, "Two streams, an AND gate and a counter")
    blue, orange, green = theme.lines[:3]

    def stream(x: float, y: float, bits: str, colour: str) -> None:
        for index, bit in enumerate(bits):
            fill, opacity = (colour, "1") if bit == "1" else (theme.muted, "0.16")
            left = x + 22 * index
            picture.shape(f'<rect x="{left:g}" y="{y:g}" width="20" height="30" rx="4" fill="{fill}" fill-opacity="{opacity}"/>')
            ink = theme.background if bit == "1" else theme.muted
            picture.text(left + 10, y + 21, bit, fill=ink, anchor="middle", size=17, extra=f'font-family="{MONO}"')

    picture.text(16, 38, f"0.75: {A.count('1')} of 8 are ones", size=17)
    stream(16, 50, A, blue)
    picture.text(16, 206, f"0.5: {B.count('1')} of 8 are ones", size=17)
    stream(16, 152, B, orange)
    picture.line([(196, 65), (218, 65), (218, 101), (240, 101)], stroke=blue, arrow=blue)
    picture.line([(196, 167), (218, 167), (218, 131), (240, 131)], stroke=orange, arrow=orange)
    picture.shape(
        f'<path d="M242,84 H272 A32,32 0 0 1 272,148 H242 Z" fill="none" stroke="{theme.text}" stroke-width="2.5" stroke-linejoin="round"/>'
    )
    picture.text(270, 122, "AND", anchor="middle", size=17)
    picture.text(273, 180, "multiplies", anchor="middle", fill=theme.muted, size=17)
    picture.line([(305, 116), (330, 116)], stroke=green, arrow=green)
    stream(338, 101, product, green)
    picture.line([(518, 116), (541, 116)], stroke=green, arrow=green)
    picture.shape(f'<rect x="543" y="86" width="86" height="60" rx="6" fill="none" stroke="{theme.text}" stroke-width="2.5"/>')
    picture.text(586, 121, "counter", anchor="middle", size=17)
    picture.text(586, 180, "adds", anchor="middle", fill=theme.muted, size=17)
    picture.line([(630, 116), (654, 116)], stroke=theme.text, arrow=theme.text)
    picture.text(662, 112, f"{product.count('1')} / 8 =", size=17)
    picture.text(662, 134, f"{product.count('1') / 8:g}", size=17)
    return picture.finish()


def accuracy(theme: Theme, data: Any) -> str:
    """Draws the accuracy of the embedded network against the stream length."""
    picture = Picture(760, 404, theme, "Accuracy of the embedded digits network against stream length")
    axes = Axes(picture, LENGTHS, label="accuracy on 360 test digits (%)")
    curves: dict[str, list[float]] = data["curves"]
    low = math.floor(min(min(curve) for curve in curves.values()) / 2) * 2

    def y(percent: float) -> float:
        return axes.bottom - (percent - low) / (100 - low) * (axes.bottom - axes.top)

    for percent in range(low, 101, 2):
        axes.tick(y(percent), str(percent))
    best = y(data["float"])
    picture.line([(axes.left, best), (axes.right, best)], stroke=theme.text, width=1.5, dash="6 4")
    ends = [("floating point", best - 19, theme.text)]
    for (name, curve), colour in zip(curves.items(), theme.lines):
        axes.curve([(length, y(percent)) for length, percent in zip(LENGTHS, curve)], colour)
        ends.append((name, y(curve[-1]), colour))
    axes.names(ends)
    return picture.finish()


def accuracy_data() -> Any:
    """Evaluates the embedded network."""
    names = {"Sobol": "sobol", "LFSR": "lfsr", "Bernoulli": "bernoulli"}
    lengths = ",".join(map(str, LENGTHS))
    found = program("eval", "--lengths", lengths, "--generators", ",".join(names.values()), "--seeds", "10")
    cells: dict[tuple[str, int], list[float]] = {}
    for cell in found["cells"]:
        cells.setdefault((cell["generator"], cell["length"]), []).append(100 * cell["accuracy"])
    return {
        "float": 100 * found["float"]["accuracy"],
        "curves": {
            name: [math.fsum(seeds) / len(seeds) for seeds in (cells[generator, length] for length in LENGTHS)]
            for name, generator in names.items()
        },
    }


def product_error(theme: Theme, data: Any) -> str:
    """Draws the error of products against the stream length."""
    picture = Picture(780, 404, theme, "Root-mean-square error of products against stream length")
    axes = Axes(picture, PRODUCT_LENGTHS, label="root-mean-square error of a product")
    top, bottom = math.log10(0.5), math.log10(0.001)

    def y(error: float) -> float:
        return axes.top + (top - math.log10(error)) / (top - bottom) * (axes.bottom - axes.top)

    for error in [0.3, 0.1, 0.03, 0.01, 0.003, 0.001]:
        axes.tick(y(error), f"{error:g}")
    ends = []
    for (name, curve), colour in zip(data.items(), theme.lines):
        axes.curve([(length, y(error)) for length, error in zip(PRODUCT_LENGTHS, curve)], colour)
        ends.append((name, y(curve[-1]), colour))
    axes.names(ends)
    return picture.finish()


def bernoulli_error(length: int) -> float:
    """Returns the root-mean-square error of products of Bernoulli streams, over all pairs of 8-bit values.

    A product bit is 1 with the probability p = x y / 2**16, so that the mean of L bits has the variance p (1 - p) / L.
    """
    total = 0
    for x in range(256):
        for y in range(256):
            total += x * y * (2**16 - x * y)
    return math.sqrt(total / 2**16 / 2**32 / length)


def product_data() -> Any:
    """Computes the errors of all products of 8-bit values."""
    found = program("tables", *PAIRS.values(), "--lengths", ",".join(map(str, PRODUCT_LENGTHS)))
    cells = {(f"{row['x']}+{row['y']}", row["length"]): row["rmse"] for row in found}
    curves = {"Bernoulli": [bernoulli_error(length) for length in PRODUCT_LENGTHS]}
    return curves | {name: [cells[pair, length] for length in PRODUCT_LENGTHS] for name, pair in PAIRS.items()}


Draw = Callable[[Theme, Any], str]
FIGURES: dict[str, tuple[Draw, Callable[[], Any]]] = {
    "idea": (idea, lambda: None),
    "accuracy": (accuracy, accuracy_data),
    "product-error": (product_error, product_data),
    "time": (performance.time, performance.time_data),
    "share": (performance.share, performance.share_data),
}


def files() -> Iterator[tuple[pathlib.Path, str]]:
    """Yields the path and the content of every file."""
    for name, (draw, compute) in FIGURES.items():
        data = compute()
        for theme in THEMES:
            yield FOLDER / f"{name}-{theme.name}.svg", draw(theme, data)


def main() -> None:
    outdated = []
    for path, text in files():
        if sys.argv[1:] == ["--check"]:
            if not path.exists() or path.read_text() != text:
                outdated.append(path.name)
        else:
            path.write_text(text)
    if outdated:
        raise SystemExit(f"{', '.join(outdated)}: run python docs/figures/figures.py")


if __name__ == "__main__":
    main()
