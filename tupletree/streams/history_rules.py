"""Checks of a program with a history, before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tupletree.errors import UsageError
from tupletree.streams.graph import Kind, Operator
from tupletree.streams.history import ParquetHistory

HISTORY = "history"
"""The setting of an operator that begins with a history."""


def history_settings(title: str, history: Any) -> dict[str, Any]:
    """Return the settings of an operator with a history, or without one. Raises UsageError if it is none."""
    if history is not None and not isinstance(history, ParquetHistory):
        raise UsageError(f"{title}: history takes a ParquetHistory, not {history!r}")
    return {} if history is None else {HISTORY: history}


def check_table_history(table: Operator, history: Any, is_versioned: bool) -> None:
    """Check the history of a join with a table. Raises UsageError if there must be none, or must be one."""
    if is_versioned and history is not None:
        raise UsageError("join_table takes no history with versioned=True: the rows of a history have no event times")
    while table.is_narrow and len(table.parents) == 1:
        table = table.parents[0]
    if history is None and HISTORY in table.settings:
        raise UsageError(
            f"join_table keeps rows of its own, which begin without the history of its table, a {table.title}: write "
            f"join_table(…, history=…)"
        )


def check_history(one: Operator, id: str, is_exact: bool) -> None:
    """Check that the sources of an operator with a history go on where the history ends, and nowhere else.

    ``id``: the component of the operator. Raises UsageError.
    """
    history: ParquetHistory | None = one.settings.get(HISTORY)
    if history is None or not history.positions:
        return
    starts: dict[str, int] = {}
    for source in _sources(one):
        log: Any = getattr(source.argument, "source", None)
        start = getattr(log, "start", None)
        if not isinstance(start, Mapping):
            continue
        if log.keeps_positions and not is_exact:
            raise UsageError(
                f"'{id}' begins with a history, and the consumer group of its source can have other positions: leave "
                f"the group out, or build the topology with exactly_once"
            )
        starts.update(start)
    for partition, position in history.positions.items():
        if starts.get(partition) != position:
            raise UsageError(
                f"'{id}' begins with a history that ends at {position:,} of {partition!r}, and no source of it begins "
                f"there: write KafkaSpout(…, start=history.positions)"
            )


def _sources(one: Operator) -> Iterator[Operator]:
    """Yield the sources from which the elements of an operator come."""
    for parent in one.parents:
        if parent.kind is Kind.SOURCE:
            yield parent
        yield from _sources(parent)
