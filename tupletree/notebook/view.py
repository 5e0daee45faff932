"""A running program as HTML: its graph with counts in the boxes, and a table."""

from __future__ import annotations  # pure

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Final

from tupletree.streams.drawing import Box, drawn
from tupletree.testing.counts import ComponentCounts

MAX_ERROR: Final = 300
"""The length of an error in the table."""

_HEADINGS: Final = ("component", "executed", "per second", "emitted", "per second", "failed", "waiting", "errors")


@dataclass(frozen=True, slots=True)
class Row:
    """A component in the table.

    Attributes:
        counts: the totals.
        executed_per_s: the rate at which a bolt executes tuples.
        emitted_per_s: the rate at which tuples are emitted.
        errors: the number of errors that it has reported.
        newest: the newest of them.
    """

    counts: ComponentCounts
    executed_per_s: float = 0.0
    emitted_per_s: float = 0.0
    errors: int = 0
    newest: str = ""


def rows(
    counts: Mapping[str, ComponentCounts],
    earlier: Mapping[str, ComponentCounts],
    elapsed_s: float,
    errors: Sequence[tuple[str, BaseException]],
) -> dict[str, Row]:
    """Return the table. The rates are those since ``earlier``, ``elapsed_s`` ago, which is more than 0."""
    reported = Counter(component for component, _ in errors)
    newest = {component: f"{type(error).__name__}: {error}" for component, error in errors}
    found = {}
    for id, now in counts.items():
        before = earlier.get(id, ComponentCounts())
        found[id] = Row(
            now,
            executed_per_s=(now.executed - before.executed) / elapsed_s,
            emitted_per_s=(now.emitted - before.emitted) / elapsed_s,
            errors=reported[id],
            newest=newest.get(id, ""),
        )
    return found


def as_html(status: str, graph: Sequence[Box], table: Mapping[str, Row]) -> str:
    """Return a line with the status, the picture of the graph, and the table."""
    live = [replace(box, lines=(*box.lines, _line(table[box.id]))) if box.id in table else box for box in graph]
    return f"<div><p>{escape(status)}</p>{drawn(live)}{_table(table)}</div>"


def as_text(status: str, table: Mapping[str, Row]) -> str:
    """Return the same in plain text, without the graph."""
    return "\n".join([status, *(f"  {id}: {_line(row)}" for id, row in table.items())])


def _line(row: Row) -> str:
    if row.counts.emitted:
        return f"{row.counts.emitted:,} out, {row.emitted_per_s:,.0f}/s"
    return f"{row.counts.executed:,} in, {row.executed_per_s:,.0f}/s"


def _table(table: Mapping[str, Row]) -> str:
    heads = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(map(_tr, table, table.values()))}</tbody></table>"


def _tr(id: str, row: Row) -> str:
    counts = row.counts
    numbers = (counts.executed, row.executed_per_s, counts.emitted, row.emitted_per_s, counts.failed, counts.waiting)
    cells = "".join(f"<td>{number:,.0f}</td>" for number in numbers)
    newest = row.newest if len(row.newest) <= MAX_ERROR else f"{row.newest[: MAX_ERROR - 1]}…"
    errors = f"{row.errors:,}: {escape(newest)}" if row.errors else ""
    return f"<tr><th>{escape(id)}</th>{cells}<td>{errors}</td></tr>"
