"""Making the operators that follow event time: windows, joins, and what comes too late for them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tupletree.errors import UsageError
from tupletree.keyed import CountWindow
from tupletree.streams.checks import check_window
from tupletree.streams.graph import Kind, Operator
from tupletree.streams.history import ParquetHistory
from tupletree.streams.history_rules import check_table_history, history_settings
from tupletree.streams.layout import TIME, Layout, record_of, return_annotation
from tupletree.streams.operators import check_fold, check_function
from tupletree.streams.parts import LATE, Part
from tupletree.streams.plan import Component
from tupletree.streams.program import Emission
from tupletree.streams.steps import Fold
from tupletree.streams.timed_heads import IntervalHead, MergingWindowHead, TableHead, Windowed, WindowHead

TIME_NEEDED = "needs event times: write stream.event_time(f, max_lag=timedelta(…)) before it"


def windowed(
    parent: Operator,
    title: str,
    fold: Fold,
    window: Any,
    is_processing: bool,
    emission: Mapping[str, Any],
    name: str = "",
    parallelism: int | None = None,
) -> Operator:
    """Add an aggregation of windows per key. Raises UsageError as ``narrow``, and without event times.

    ``window``, ``emission``: attributes of a KeyedWindow.
    """
    check_fold(title, fold)
    if unknown := ", ".join(emission.keys() - Emission.__optional_keys__):
        raise UsageError(f"window has no setting {unknown}; it has {', '.join(sorted(Emission.__optional_keys__))}")
    check_window(window, emission)
    is_timed = not is_processing and not isinstance(window, CountWindow)
    if is_timed and not parent.layout.has_time:
        raise UsageError(f"{title} of a window {TIME_NEEDED}, or say window(…, processing_time=True)")
    times = {**time_settings([parent]), "event_time": TIME} if is_timed else {}
    given = {"window": window, **emission, **times}
    head = WindowHead if fold.merge is None and not fold.is_sum else MergingWindowHead
    part = Part(
        lambda edges, chain, exact: head(fold, given, chain),
        by_key=True,
        is_plain=True,
        is_timed=is_timed,
        late_stream=LATE if is_timed else "",
        takes_chain=True,
        is_stateful=True,
    )
    layout = Layout(has_key=True, has_time=is_timed, record=Windowed)
    return Operator(Kind.COMPONENT, name, title, (parent,), part, layout, parallelism)


def join(
    parents: Sequence[Operator],
    title: str,
    kind: str,
    function: Any,
    *,
    before: dt.timedelta,
    after: dt.timedelta,
    name: str = "",
    parallelism: int | None = None,
) -> Operator:
    """Add a join of two streams within an interval. Raises UsageError as ``narrow``, and without event times.

    ``kind``, ``before``, ``after``: those of an IntervalJoin.
    """
    _check_two(title, parents, function)
    if not all(one.layout.has_time for one in parents):
        raise UsageError(f"{title} {TIME_NEEDED}, on both streams")
    given = {"kind": kind, "before": before, "after": after, **time_settings(parents)}
    part = Part(
        lambda edges, chain, exact: IntervalHead(function, given, edges, chain),
        by_key=True, is_plain=True, is_timed=True, late_stream=LATE, takes_chain=True, is_stateful=True,
    )  # fmt: skip
    layout = Layout(has_key=True, has_time=True, record=record_of(return_annotation(function)))
    return Operator(Kind.COMPONENT, name, title, tuple(parents), part, layout, parallelism)


def join_table(
    parents: Sequence[Operator],
    kind: str,
    function: Any,
    *,
    versioned: bool = False,
    name: str = "",
    parallelism: int | None = None,
    history: ParquetHistory | None = None,
) -> Operator:
    """Add a join with a table. Raises UsageError as ``narrow``, and for a versioned table without event times.

    ``kind``, ``versioned``: those of a TableJoin.
    """
    _check_two("join_table", parents, function)
    check_table_history(parents[1], history, versioned)
    if versioned and not all(one.layout.has_time for one in parents):
        raise UsageError(f"join_table with versioned=True {TIME_NEEDED}, on both streams")
    given = {
        "kind": kind,
        "versioned": versioned,
        **(time_settings(parents) if versioned else {}),
        "event_time": TIME if versioned else None,
    }
    part = Part(
        lambda edges, chain, exact: TableHead(function, given, edges, chain, history),
        by_key=True, is_plain=True, is_timed=versioned, late_stream=LATE if versioned else "", takes_chain=True,
        is_stateful=True,
    )  # fmt: skip
    layout = Layout(True, versioned, record_of(return_annotation(function)))
    settings = history_settings("", history)
    return Operator(Kind.COMPONENT, name, "join_table", tuple(parents), part, layout, parallelism, settings)


def late(parent: Operator) -> Operator:
    """Add, or find, the operator of the elements that come too late for the one that ``parent`` has results of.

    The elements have the layout in which they came, but no event time: progress in event time is that of the results.

    Raises:
        UsageError: no element can be late.
    """
    while parent.is_narrow:
        parent = parent.parents[0]
    if not isinstance(parent.argument, Part) or not parent.argument.late_stream:
        raise UsageError(
            f"late: no element can be late for {parent.title}, which does not follow event time; that do windows and "
            f"versioned joins in event time, and a KeyedProcess with event_time"
        )
    found = next((child for child in parent.children if child.kind is Kind.LATE), None)
    sides = parent.parents[:1] if parent.title == "join_table" else parent.parents  # rows of a table are never late
    layouts = [dataclasses.replace(one.layout, has_time=False) for one in sides]
    layout = layouts[0] if all(one == layouts[0] for one in layouts) else layouts[0].plain
    return found or Operator(Kind.LATE, "", "late", (parent,), None, layout)


def _check_two(title: str, parents: Sequence[Operator], function: Any) -> None:
    check_function(title, function, 2)
    first, second = parents
    if first is second:
        raise UsageError(f"{title} takes two streams, and both are the same one")
    if not second.layout.has_key:
        raise UsageError(f"{title} takes a stream with keys: write other.key_by(f)")


def time_settings(parents: Sequence[Operator]) -> dict[str, Any]:
    """Return ``max_lag`` and ``idle_timeout`` for elements of several streams: the most patient of each."""
    found = [one.settings for parent in parents for one in _event_times(parent)]
    timeouts = [one["idle_timeout"] for one in found]
    return {
        "max_lag": max(one["max_lag"] for one in found),
        "idle_timeout": None if None in timeouts else max(timeouts),
    }


def idle_timeout_ms(*operators: Operator) -> int | None:
    """Return the idle timeout of elements of operators, which have event times, in milliseconds."""
    timeout: dt.timedelta | None = time_settings(operators)["idle_timeout"]
    return None if timeout is None else round(timeout / dt.timedelta(milliseconds=1))


def idle_timeouts_ms(component: Component, components: Mapping[str, Component]) -> dict[str, int | None]:
    """Return the idle timeouts of the components that send one their progress, each by its own event times.

    ``components``: all of them, by id.
    """
    parents = [component.head] if component.is_narrow else component.head.parents
    times = [one for parent in parents for one in _event_times(parent)]
    found: dict[str, int | None] = {}
    for id in component.watermarks:
        sender = components[id]
        found[id] = idle_timeout_ms(*([one for one in times if one in sender.operators] or [sender.head]))
    return found


def _event_times(one: Operator) -> Iterator[Operator]:
    """Yield the operators that have given the elements of one their times."""
    if one.kind is Kind.EVENT_TIME:
        yield one
        return
    for parent in one.parents:
        if parent.layout.has_time:
            yield from _event_times(parent)
