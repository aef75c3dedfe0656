"""The figures of the performance page, drawn from what the benchmarks printed.

`measured/*.json` are outputs of `cargo bench -p aleatron --bench NAME -- --json` on the machine that
docs/performance.md names; a new measurement replaces them.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
from typing import Any

from svg import Axes, Picture, Theme

MEASURED = pathlib.Path(__file__).resolve().parent / "measured"


def measured(bench: str) -> Any:
    """Returns the rows that a benchmark printed."""
    return json.loads((MEASURED / f"{bench}.json").read_text())


def time_data() -> Any:
    """Returns the times of layers of one size for each stream length."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for row in measured("scaling_bench"):
        if named := re.fullmatch(r"(32->16|256->128 x 16), L = (\d+)", row["case"]):
            curves.setdefault(named[1], []).append((int(named[2]), row["seconds"]))
    return curves


def time(theme: Theme, data: Any) -> str:
    """Draws the time of two layers against the stream length."""
    picture = Picture(780, 404, theme, "Time of a layer against stream length")
    lengths = [length for length, _ in next(iter(data.values()))]
    axes = Axes(picture, lengths, label="time of a call on one thread")
    seconds = [second for curve in data.values() for _, second in curve]
    low, high = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))

    def y(second: float) -> float:
        return axes.bottom - (math.log10(second) - low) / (high - low) * (axes.bottom - axes.top)

    names = {-6: "1 us", -5: "10 us", -4: "100 us", -3: "1 ms", -2: "10 ms", -1: "100 ms", 0: "1 s"}
    for power in range(low, high + 1):
        axes.tick(y(10.0**power), names[power])
    ends = []
    for (name, curve), colour in zip(data.items(), theme.lines):
        # A time that is proportional to the length, through the last point.
        (length, last), first = curve[-1], curve[0][0]
        reached = max(last * first / length, 10.0**low)
        picture.line([(axes.x(length), y(last)), (axes.x(round(length * reached / last)), y(reached))], stroke=theme.muted, width=1, dash="5 4")
        axes.curve([(length, y(second)) for length, second in curve], colour)
        ends.append((name, y(last), colour))
    axes.names(ends)
    return picture.finish()


def share_data() -> Any:
    """Returns the cases of one thread that were measured beside a ceiling: name, ceiling and share."""
    rows = [row for bench in ["bitstream_bench", "full_bench"] for row in measured(bench)]
    rows = [row for row in rows if "share" in row and "2 threads" not in row["case"] and "seed used before" not in row["case"]]
    return [(re.sub(r", 1 thread(\(s\))?", "", row["case"]), row["ceiling"], row["share"]) for row in rows]


def share(theme: Theme, data: Any) -> str:
    """Draws the speed of each case as a share of its ceiling."""
    step, left, right, top = 30, 330.0, 700.0, 66.0
    bottom = top + step * len(data)
    picture = Picture(780, int(bottom) + 24, theme, "Speed as a share of what the machine can do")
    picture.text(16, 30, "speed on one thread as a share of a loop that does only this work, measured in the same run")
    for percent in range(0, 101, 25):
        x = left + percent / 100 * (right - left)
        picture.line([(x, top - 8), (x, bottom)], stroke=theme.text if percent == 100 else theme.grid, width=1)
        picture.text(x, top - 13, f"{percent} %", anchor="middle", fill=theme.muted, size=13)
    ceilings = sorted({ceiling for _, ceiling, _ in data})
    for index, (case, ceiling, fraction) in enumerate(data):
        y = top + step * index
        colour = theme.lines[ceilings.index(ceiling) % len(theme.lines)]
        width = min(fraction, 1.1) * (right - left)
        picture.text(left - 10, y + 16, case, anchor="end", size=13)
        picture.shape(f'<rect x="{left:g}" y="{y + 2:g}" width="{width:.1f}" height="{step - 10}" rx="3" fill="{colour}"/>')
        # Narrow bars have no room for text.
        if fraction < 0.5:
            picture.text(left + width + 6, y + 16, f"{fraction:.2f} of {ceiling}", fill=theme.muted, size=12)
            continue
        picture.text(left + 8, y + 16, ceiling, fill=theme.background, size=12)
        picture.text(left + width - 8, y + 16, f"{fraction:.2f}", anchor="end", fill=theme.background, size=12)
    return picture.finish()
