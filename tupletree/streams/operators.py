"""Making the operators of a program, with their layouts. The methods of streams call these functions."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree._signatures import is_generator
from tupletree.backoff import Backoff
from tupletree.component import BasicBolt, Bolt, StatefulBolt
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.row_sinks import RowSinkBolt
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.errors import UsageError
from tupletree.keyed import KeyedProcess
from tupletree.streams.async_head import AsyncHead
from tupletree.streams.checks import check_times, settling
from tupletree.streams.elements import second
from tupletree.streams.graph import Kind, Operator
from tupletree.streams.heads import AggregateBolt, UpdateStateBolt
from tupletree.streams.history import ParquetHistory
from tupletree.streams.history_rules import history_settings
from tupletree.streams.layout import Layout, guarded_annotation, item_annotation, record_of, return_annotation
from tupletree.streams.parts import LATE, Part
from tupletree.streams.printing import Printer, Row
from tupletree.streams.sources import check_arguments, layout_of, row_type
from tupletree.streams.steps import Fold
from tupletree.windows import WindowedBolt

COUNT: Final = Fold(None, None, None, is_count=True)
SUM: Final = Fold(None, None, None)
LATEST: Final = Fold(None, second, second)


def _appended(elements: list[Any], element: Any) -> list[Any]:
    elements.append(element)
    return elements


def _joined(first: list[Any], second: list[Any]) -> list[Any]:
    return first + second


TO_LIST: Final = Fold(list, _appended, _joined)


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event times of a stream."""

    function: Callable[[Any], int | dt.datetime]
    max_lag: dt.timedelta
    idle_timeout: dt.timedelta | None


def narrow(
    parent: Operator, kind: Kind, title: str, function: Any, name: str = "", parallelism: int | None = None
) -> Operator:
    """Add an operator that calls a function with each element.

    Raises:
        UsageError: the function cannot be called with one argument, or would not run when it is called.
    """
    check_function(title, function)
    given = parent.layout
    layout = given
    if kind is Kind.MAP:
        layout = given.with_record(record_of(return_annotation(function)))
    elif kind is Kind.FLAT_MAP:
        layout = given.with_record(record_of(item_annotation(function)))
    elif kind is Kind.FILTER and given.record is None and (record := record_of(guarded_annotation(function))):
        layout = given.with_record(record)
    elif kind is Kind.KEY_BY:
        layout = dataclasses.replace(given, has_key=True)
    return Operator(kind, name, title, (parent,), function, layout, parallelism)


def branch(parent: Operator, predicates: Sequence[Any], name: str) -> list[Operator]:
    """Add a branch; return one operator for each predicate. Raises UsageError as ``narrow``, or without predicates."""
    if not predicates:
        raise UsageError("branch takes one predicate for each stream that it returns")
    for predicate in predicates:
        check_function("branch", predicate)
    one = Operator(Kind.BRANCH, name, "branch", (parent,), tuple(predicates), parent.layout)
    return [Operator(Kind.CASE, "", f"case-{index}", (one,), None, parent.layout) for index in range(len(predicates))]


def of_one_program(title: str, streams: Sequence[Any]) -> list[Operator]:
    """Return the operators of streams. Raises UsageError if one of them is none, or is of another program."""
    for one in streams:
        if not isinstance(getattr(one, "operator", None), Operator):
            raise UsageError(f"{title} takes streams, not {one!r}")
        if one.builder is not streams[0].builder:
            raise UsageError(f"{title} takes streams of one StreamBuilder")
    return [one.operator for one in streams]


def merge(streams: Sequence[Any], name: str) -> Operator:
    """Add the union of streams. Raises UsageError if one is of another program, or not like the others."""
    parents = of_one_program("merge", streams)
    if len(streams) < 2:
        raise UsageError("merge takes one stream or more")
    if len({(one.layout.has_key, one.layout.has_time) for one in parents}) > 1:
        raise UsageError("merge takes streams that all have a key or none, and all have an event time or none")
    first = parents[0].layout
    is_alike = all(one.layout.record is first.record for one in parents)
    layout = first if is_alike and first.record is not None else first.plain
    return Operator(Kind.MERGE, name, "merge", tuple(parents), None, layout)


def items(parent: Operator, name: str) -> Operator:
    """Add the operator that makes pairs of key and element."""
    return Operator(Kind.ITEMS, name, "items", (parent,), None, Layout(has_time=parent.layout.has_time))


def values(parent: Operator, name: str) -> Operator:
    """Add the operator that takes the key from each element."""
    layout = dataclasses.replace(parent.layout, has_key=False)
    return Operator(Kind.VALUES, name, "values", (parent,), None, layout)


def event_time(parent: Operator, time: EventTime, name: str) -> Operator:
    """Add the operator that gives elements event times. Raises UsageError as ``narrow``."""
    check_function("event_time", time.function)
    check_times(time.max_lag, time.idle_timeout)
    layout = dataclasses.replace(parent.layout, has_time=True)
    settings = {"max_lag": time.max_lag, "idle_timeout": time.idle_timeout}
    return Operator(Kind.EVENT_TIME, name, "event_time", (parent,), time.function, layout, None, settings)


def aggregate(
    parent: Operator,
    title: str,
    fold: Fold,
    combine: bool,
    name: str = "",
    parallelism: int | None = None,
    history: ParquetHistory | None = None,
) -> Operator:
    """Add an aggregation by key. Raises UsageError as ``narrow``."""
    check_fold(title, fold)
    settings = history_settings(title, history)
    part = Part(
        lambda edges, chain, exact: AggregateBolt(fold, edges, chain, history),
        by_key=True,
        fold=fold if combine else None,
        needs_value=not fold.is_count,
        takes_chain=True,
        is_stateful=True,
    )
    return Operator(Kind.COMPONENT, name, title, (parent,), part, Layout(has_key=True), parallelism, settings)


def check_fold(title: str, fold: Fold) -> None:
    """Check the functions of an aggregation. Raises UsageError as ``narrow``."""
    for function, count in ((fold.initial, 0), (fold.add, 2), (fold.merge, 2)):
        if function is not None:
            check_function(title, function, count)


def update_state(
    parent: Operator,
    function: Any,
    name: str = "",
    parallelism: int | None = None,
    history: ParquetHistory | None = None,
) -> Operator:
    """Add a function with a state per key. Raises UsageError as ``narrow``."""
    check_function("update_state", function, 2)
    settings = history_settings("update_state", history)
    part = Part(
        lambda edges, chain, exact: UpdateStateBolt(function, edges, chain, history),
        by_key=True,
        takes_chain=True,
        is_stateful=True,
    )
    return Operator(Kind.COMPONENT, name, "update_state", (parent,), part, Layout(has_key=True), parallelism, settings)


def map_async(
    parent: Operator,
    function: Any,
    *,
    in_flight: int = 100,
    ordered: bool = False,
    timeout: dt.timedelta = dt.timedelta(seconds=30),
    retry: Backoff | None = None,
    name: str = "",
    parallelism: int | None = None,
) -> Operator:
    """Add a coroutine function. Raises UsageError if it is none, or cannot be called with one argument."""
    if not inspect.iscoroutinefunction(function):
        raise UsageError(f"map_async takes a coroutine function (async def), not {function!r}")
    check_arguments("map_async", function, 1)
    settings = {"in_flight": in_flight, "ordered": ordered, "timeout_s": timeout.total_seconds(), "retry": retry}
    part = Part(
        lambda edges, chain, exact: AsyncHead(function, settings, edges, chain),
        by_key=parent.layout.has_key,
        takes_chain=True,
    )
    layout = Layout(parent.layout.has_key, False, record_of(return_annotation(function)))
    return Operator(Kind.COMPONENT, name, "map_async", (parent,), part, layout, parallelism)


def process(parent: Operator, bolt: Bolt | BasicBolt, name: str = "", parallelism: int | None = None) -> Operator:
    """Add a bolt of the user. Raises UsageError if it is none, or has no default stream."""
    if not isinstance(bolt, Bolt | BasicBolt):
        raise UsageError(f"process takes a bolt, not {bolt!r}")
    layout = layout_of(bolt, "process")
    return Operator(Kind.COMPONENT, name, "process", (parent,), _part_of(parent, bolt), layout, parallelism)


def sink(
    parent: Operator, target: Any, fields: Sequence[str], name: str = "", parallelism: int | None = None
) -> Operator:
    """Add a sink. Raises UsageError if it is none, or the names of its fields are no names of Python.

    The rows of one key of the sink, or else of the stream, go to one task, in their order: the last replaces others.
    """
    has_key = parent.layout.has_key
    if fields:
        parent = _with_fields(parent, tuple(fields))
    if isinstance(target, TransactionalSink):
        part = Part(
            lambda edges, chain, exact: ExactlyOnceSinkBolt(target) if exact else RowSinkBolt(target), settles=True
        )
    elif isinstance(target, Bolt | BasicBolt):
        settles, instead = isinstance(target, ExactlyOnceSinkBolt), settling(target)
        part = dataclasses.replace(_part_of(parent, target), settles=settles, instead=instead)
    else:
        hint = ": peek calls a function with each element" if callable(target) else ""
        raise UsageError(f"sink takes a sink of tupletree.connectors or a bolt, not {target!r}{hint}")
    if not part.by_fields:
        table = target.sink if isinstance(target, ExactlyOnceSinkBolt | RowSinkBolt) else target
        own = tuple(table.key_fields) if isinstance(table, TransactionalSink) else ()
        key = own or (tuple(fields[:1]) if has_key else ())
        part = dataclasses.replace(part, by_key=parent.layout.has_key and not key, by_fields=key)
    return Operator(Kind.COMPONENT, name, "sink", (parent,), part, parent.layout, parallelism)


def printing(parent: Operator, prefix: str, name: str) -> Operator:
    """Add the printing of elements."""
    return Operator(Kind.PRINT, name, "print", (parent,), Printer(prefix, parent.layout.has_key), parent.layout)


def _with_fields(parent: Operator, fields: tuple[str, ...]) -> Operator:
    has_key = parent.layout.has_key
    try:
        record = row_type(fields)
    except ValueError as error:
        raise UsageError(f"sink: fields: {error}") from None
    if has_key:
        parent = items(parent, "")
    layout = parent.layout.with_record(record)
    return Operator(Kind.MAP, "", "fields", (parent,), Row(record, has_key), layout)


def _part_of(parent: Operator, bolt: Any) -> Part:
    if isinstance(bolt, KeyedProcess):
        late_stream = "" if bolt.event_time is None else bolt.late_stream or LATE
        return Part(
            lambda edges, chain, exact: bolt,
            by_fields=bolt.key_fields,
            late_stream=late_stream,
            is_stateful=True,
        )
    return Part(
        lambda edges, chain, exact: bolt,
        by_key=parent.layout.has_key,
        is_stateful=isinstance(bolt, StatefulBolt),
        hindrance=_hindrance(bolt) if isinstance(bolt, WindowedBolt) else "",
    )


def _hindrance(bolt: WindowedBolt) -> str:
    return (
        f"a {type(bolt).__name__}, holds the tuples of its windows, for which a checkpoint would wait; use window(…), "
        f"a KeyedWindow, or at_least_once"
    )


def check_function(title: str, function: Any, count: int = 1) -> None:
    """Check a function of a program: it is called with ``count`` elements, and runs when it is called.

    Raises:
        UsageError: it is not callable, is a coroutine function, is a generator function where one value is expected, or
            takes other arguments.
    """
    if not callable(function):
        raise UsageError(f"{title} takes a function, not {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{title} calls its function and does not await it: use map_async, or write it without async")
    if title != "flat_map" and is_generator(function):
        raise UsageError(f"{title} takes a function that returns one value, and this one yields: use flat_map")
    check_arguments(title, function, count)
