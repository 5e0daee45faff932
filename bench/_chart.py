"""Bar charts and curves as SVG text; the same values give the same chart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, LABEL, BAR, GAP, VALUE, TOP = 720, 190, 20, 8, 90, 40
LETTER = 7.2  # at most, on average, of a name in a font without serifs
FILL, GRID = "#3b6ea5", "#dddddd"
HEIGHT, LEFT, RIGHT, BOTTOM, INSET = 320, 70, 60, 50, 40


def bars(title: str, values: Mapping[str, float]) -> str:
    """Return horizontal bars from zero, one per value, labelled with names and values."""
    label = max([LABEL, *(GAP + math.ceil(LETTER * len(name)) + GAP for name in values)])
    room = WIDTH - label - VALUE
    highest = max(values.values(), default=0) or 1
    height = TOP + len(values) * (BAR + GAP) + GAP
    lines = _canvas(title, height)
    for number, (name, value) in enumerate(values.items()):
        y = TOP + number * (BAR + GAP)
        middle, width = y + 15, round(room * value / highest, 1)
        lines += [
            f'<text x="{label - GAP}" y="{middle}" text-anchor="end" fill="#222222">{escape(name)}</text>',
            f'<rect x="{label}" y="{y}" width="{width}" height="{BAR}" fill="{FILL}"/>',
            f'<text x="{label + width + 6:g}" y="{middle}" fill="#222222">{figure(value)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def curve(title: str, axis: str, values: Mapping[float, float]) -> str:
    """Return a line through positive points, labelled with their values; both axes are logarithmic.

    Each power of ten of a value has a line of the grid.
    """
    across, up = _powers(list(values)), _powers(list(values.values()))

    def place(x: float, y: float) -> tuple[float, float]:
        left = (
            LEFT + INSET + (WIDTH - LEFT - RIGHT - 2 * INSET) * (math.log10(x) - across[0]) / (across[-1] - across[0])
        )
        top = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP - 20) * (math.log10(y) - up[0]) / (up[-1] - up[0])
        return round(left, 1), round(top, 1)

    lines = [*_canvas(title, HEIGHT), f'<text x="{LEFT}" y="{HEIGHT - 12}" fill="#222222">{escape(axis)}</text>']
    for power in up:
        _, y = place(1, 10**power)
        lines += [
            f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="{GRID}"/>',
            f'<text x="{LEFT - GAP}" y="{y + 4:g}" text-anchor="end" fill="#222222">{figure(10**power)}</text>',
        ]
    points = [place(x, y) for x, y in values.items()]
    path = " ".join(f"{x},{y}" for x, y in points)
    lines.append(f'<polyline points="{path}" fill="none" stroke="{FILL}" stroke-width="2"/>')
    for (x, y), (at, value) in zip(points, values.items(), strict=True):
        lines += [
            f'<circle cx="{x}" cy="{y}" r="4" fill="{FILL}"/>',
            f'<text x="{x}" y="{y - 10:g}" text-anchor="middle" fill="#222222">{figure(value)}</text>',
            f'<text x="{x}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle" fill="#222222">{figure(at)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _powers(values: Sequence[float]) -> range:
    """Return the powers of ten around positive values; at least two."""
    lowest = math.floor(math.log10(min(values)))
    return range(lowest, max(lowest + 1, math.ceil(math.log10(max(values)))) + 1)


def _canvas(title: str, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{GAP}" y="24" font-size="15" fill="#222222">{escape(title)}</text>',
    ]


def figure(value: float) -> str:
    """Format a number: separated thousands; three significant digits below a hundred, no decimals above."""
    if isinstance(value, int) or abs(value) >= 100:
        return f"{round(value):,}"
    return f"{value:.3g}"
