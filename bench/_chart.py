"""Bar charts as SVG text; the same values give the same chart."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

WIDTH, LABEL, BAR, GAP, VALUE, TOP = 720, 190, 20, 8, 90, 40
FILL = "#3b6ea5"


def bars(title: str, values: Mapping[str, float]) -> str:
    """Return horizontal bars from zero, one per value, labelled with names and values."""
    room = WIDTH - LABEL - VALUE
    highest = max(values.values(), default=0) or 1
    height = TOP + len(values) * (BAR + GAP) + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{GAP}" y="24" font-size="15" fill="#222222">{escape(title)}</text>',
    ]
    for number, (name, value) in enumerate(values.items()):
        y = TOP + number * (BAR + GAP)
        middle, width = y + 15, round(room * value / highest, 1)
        lines += [
            f'<text x="{LABEL - GAP}" y="{middle}" text-anchor="end" fill="#222222">{escape(name)}</text>',
            f'<rect x="{LABEL}" y="{y}" width="{width}" height="{BAR}" fill="{FILL}"/>',
            f'<text x="{LABEL + width + 6:g}" y="{middle}" fill="#222222">{figure(value)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def figure(value: float) -> str:
    """Format a number: separated thousands; three significant digits below a hundred, no decimals above."""
    if isinstance(value, int) or abs(value) >= 100:
        return f"{round(value):,}"
    return f"{value:.3g}"
