"""The graph of a program's components as a picture: SVG in HTML, without scripts.

Components stand in columns, from left to right: each in the column after the last of those that it takes elements from.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from html import escape
from typing import Final

from tupletree.streams.explain import executors, reasons, titles
from tupletree.streams.plan import Component, Plan

WIDTH: Final = 210
HEIGHT: Final = 62
GAP_X: Final = 90
GAP_Y: Final = 18
MAX_TEXT: Final = 28
"""The length of a line in a box."""

Place = tuple[int, int]
"""The left and upper corner of a box."""


def drawn(plan: Plan) -> str:
    """Return the components as boxes with their operators, and the streams between them as lines.

    A box shows in a tooltip why its component stands alone. The colours are those of the page.
    """
    components = {one.id: one for one in plan.components}
    places = _places(components)
    width = max(x for x, _ in places.values()) + WIDTH + 2
    height = max(y for _, y in places.values()) + HEIGHT + 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" fill="currentColor">'
    ]
    for component in plan.components:
        for edge in component.inputs:
            fields = ", ".join(component.fields(edge))
            lines.append(_line(places[edge.component], places[component.id], f"by {fields}" if fields else ""))
    lines += [_box(one, places[one.id], components) for one in plan.components]
    return "\n".join([*lines, "</svg>"])


def _places(components: Mapping[str, Component]) -> dict[str, Place]:
    columns: dict[str, int] = {}
    rows: dict[int, int] = {}
    places: dict[str, Place] = {}

    def column(component: Component) -> int:
        if component.id not in columns:
            columns[component.id] = 1 + max((column(components[one.component]) for one in component.inputs), default=-1)
        return columns[component.id]

    for component in components.values():
        x = column(component)
        y = rows[x] = rows.get(x, -1) + 1
        places[component.id] = (1 + x * (WIDTH + GAP_X), 1 + y * (HEIGHT + GAP_Y))
    return places


def _line(start: Place, end: Place, label: str) -> str:
    x1, y1, x2, y2 = start[0] + WIDTH, start[1] + HEIGHT // 2, end[0], end[1] + HEIGHT // 2
    middle = (x1 + x2) // 2
    path = (
        f'<path d="M {x1} {y1} C {middle} {y1}, {middle} {y2}, {x2} {y2}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.5"/>'
    )
    text = f'<text x="{x2 - 6}" y="{y2 - 5}" text-anchor="end" font-size="10">{escape(_cut(label, 13))}</text>'
    return path + (text if label else "")


def _box(component: Component, place: Place, components: Mapping[str, Component]) -> str:
    x, y = place
    lines = (component.id, ", ".join(titles(component)), executors(component))
    texts = "".join(
        f'<text x="{x + 8}" y="{y + 18 + 17 * index}" font-weight="{weight}">{escape(_cut(text, MAX_TEXT))}</text>'
        for index, (text, weight) in enumerate(zip(lines, ("bold", "normal", "normal"), strict=True))
    )
    why = "\n".join([", ".join(titles(component)), *reasons(component, components)])
    return (
        f'<g><title>{escape(why)}</title><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
        f'fill="currentColor" fill-opacity="0.06" stroke="currentColor" stroke-opacity="0.5"/>{texts}</g>'
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
