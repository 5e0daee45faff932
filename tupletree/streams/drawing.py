"""Graphs of components as pictures: SVG in HTML, without scripts.

Components stand in columns, from left to right: each in the column after the last of those that it takes elements from.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tupletree.streams.explain import executors, reasons, titles
from tupletree.streams.plan import Plan

WIDTH: Final = 210
LINE_HEIGHT: Final = 17
GAP_X: Final = 90
GAP_Y: Final = 18
MAX_TEXT: Final = 28
"""The length of a line in a box."""

Place = tuple[int, int]
"""The left and upper corner of a box."""


@dataclass(frozen=True, slots=True)
class Box:
    """A component in a picture.

    Attributes:
        id: the component.
        lines: what stands in the box; the first line is bold.
        tooltip: what a box shows under the mouse.
        inputs: the components that it takes elements from, with a label for each.
    """

    id: str
    lines: tuple[str, ...]
    tooltip: str
    inputs: tuple[tuple[str, str], ...]


def boxes(plan: Plan) -> list[Box]:
    """Return the components of a program as boxes with their operators; tooltips say why each stands alone."""
    components = {one.id: one for one in plan.components}
    found = []
    for one in plan.components:
        operators = ", ".join(titles(one))
        fields = [(edge.component, ", ".join(one.fields(edge))) for edge in one.inputs]
        inputs = tuple((source, f"by {names}" if names else "") for source, names in fields)
        why = "\n".join([operators, *reasons(one, components)])
        found.append(Box(one.id, (one.id, operators, executors(one)), why, inputs))
    return found


def drawn(graph: Sequence[Box]) -> str:
    """Return a picture of boxes, all of one height, and of the streams between them as lines.

    The colours are those of the page.
    """
    lines_per_box = max(len(box.lines) for box in graph)
    height_of_box = 11 + LINE_HEIGHT * lines_per_box
    places = _places({box.id: box for box in graph}, height_of_box)
    width = max(x for x, _ in places.values()) + WIDTH + 2
    height = max(y for _, y in places.values()) + height_of_box + 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" fill="currentColor">'
    ]
    for box in graph:
        lines += [_line(places[source], places[box.id], height_of_box, label) for source, label in box.inputs]
    lines += [_box(one, places[one.id], height_of_box) for one in graph]
    return "\n".join([*lines, "</svg>"])


def _places(graph: Mapping[str, Box], height: int) -> dict[str, Place]:
    columns: dict[str, int] = {}
    rows: dict[int, int] = {}
    places: dict[str, Place] = {}

    def column(box: Box) -> int:
        if box.id not in columns:
            columns[box.id] = 0  # for a cycle of components that leads back here
            columns[box.id] = 1 + max((column(graph[source]) for source, _ in box.inputs), default=-1)
        return columns[box.id]

    for box in graph.values():
        x = column(box)
        y = rows[x] = rows.get(x, -1) + 1
        places[box.id] = (1 + x * (WIDTH + GAP_X), 1 + y * (height + GAP_Y))
    return places


def _line(start: Place, end: Place, height: int, label: str) -> str:
    x1, y1, x2, y2 = start[0] + WIDTH, start[1] + height // 2, end[0], end[1] + height // 2
    middle = (x1 + x2) // 2
    path = (
        f'<path d="M {x1} {y1} C {middle} {y1}, {middle} {y2}, {x2} {y2}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.5"/>'
    )
    text = f'<text x="{x2 - 6}" y="{y2 - 5}" text-anchor="end" font-size="10">{escape(_cut(label, 13))}</text>'
    return path + (text if label else "")


def _box(box: Box, place: Place, height: int) -> str:
    x, y = place
    texts = "".join(
        f'<text x="{x + 8}" y="{y + 18 + LINE_HEIGHT * index}" font-weight="{"normal" if index else "bold"}">'
        + f"{escape(_cut(text, MAX_TEXT))}</text>"
        for index, text in enumerate(box.lines)
    )
    return (
        f'<g><title>{escape(box.tooltip)}</title><rect x="{x}" y="{y}" width="{WIDTH}" height="{height}" rx="6" '
        f'fill="currentColor" fill-opacity="0.06" stroke="currentColor" stroke-opacity="0.5"/>{texts}</g>'
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
