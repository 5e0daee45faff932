"""Making the operators of a program, with their layouts. The methods of streams call these functions."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree._signatures import is_generator
from tupletree.component import BasicBolt, Bolt, StatefulBolt
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.row_sinks import RowSinkBolt
from tupletree.connectors.transactional_sink import TransactionalSink
from tupletree.errors import UsageError
from tupletree.keyed import KeyedProcess
from tupletree.streams.graph import Kind, Operator
from tupletree.streams.heads import AggregateBolt, AsyncHead, UpdateStateBolt
from tupletree.streams.layout import Layout, item_annotation, record_of, return_annotation
from tupletree.streams.parts import Part
from tupletree.streams.sources import layout_of, row_type
from tupletree.streams.steps import Fold


def _second(first: Any, second: Any) -> Any:
    return second


COUNT: Final = Fold(None, None, None, is_count=True)
SUM: Final = Fold(None, None, None)
LATEST: Final = Fold(None, _second, _second)


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


def merge(streams: Sequence[Any], name: str) -> Operator:
    """Add the union of streams. Raises UsageError if one is of another program, or not like the others."""
    first = streams[0]
    parents = [one.operator for one in streams]
    if len(streams) < 2:
        raise UsageError("merge takes one stream or more")
    for one in streams:
        if one.builder is not first.builder:
            raise UsageError("merge takes streams of one StreamBuilder")
    if len({(one.layout.has_key, one.layout.has_time) for one in parents}) > 1:
        raise UsageError("merge takes streams that all have a key or none, and all have an event time or none")
    records = {one.layout.record for one in parents}
    layout = (
        parents[0].layout
        if len({one.layout for one in parents}) == 1
        else Layout(
            first.operator.layout.has_key, first.operator.layout.has_time, records.pop() if len(records) == 1 else None
        )
    )
    return Operator(Kind.MERGE, name, "merge", tuple(parents), None, layout)


def items(parent: Operator, name: str) -> Operator:
    """Add the operator that makes pairs of key and element."""
    return Operator(Kind.ITEMS, name, "items", (parent,), None, Layout(has_time=parent.layout.has_time))


def event_time(parent: Operator, time: EventTime, name: str) -> Operator:
    """Add the operator that gives elements event times. Raises UsageError as ``narrow``."""
    check_function("event_time", time.function)
    layout = dataclasses.replace(parent.layout, has_time=True)
    settings = {"max_lag": time.max_lag, "idle_timeout": time.idle_timeout}
    return Operator(Kind.EVENT_TIME, name, "event_time", (parent,), time.function, layout, None, settings)


def aggregate(parent: Operator, title: str, fold: Fold, combine: bool, name: str, parallelism: int | None) -> Operator:
    """Add an aggregation by key. Raises UsageError as ``narrow``."""
    for function, count in ((fold.initial, 0), (fold.add, 2), (fold.merge, 2)):
        if function is not None:
            check_function(title, function, count)
    part = Part(
        lambda edges, chain, exact: AggregateBolt(fold, edges, chain),
        by_key=True,
        fold=fold if combine else None,
        takes_chain=True,
        is_stateful=True,
    )
    return Operator(Kind.COMPONENT, name, title, (parent,), part, Layout(has_key=True), parallelism)


def update_state(parent: Operator, function: Any, name: str, parallelism: int | None) -> Operator:
    """Add a function with a state per key. Raises UsageError as ``narrow``."""
    check_function("update_state", function, 2)
    part = Part(
        lambda edges, chain, exact: UpdateStateBolt(function, edges, chain),
        by_key=True,
        takes_chain=True,
        is_stateful=True,
    )
    layout = parent.layout.with_record(None)
    return Operator(Kind.COMPONENT, name, "update_state", (parent,), part, layout, parallelism)


def map_async(
    parent: Operator, function: Any, settings: Mapping[str, Any], name: str, parallelism: int | None
) -> Operator:
    """Add a coroutine function. Raises UsageError if it is none, or cannot be called with one argument."""
    if not inspect.iscoroutinefunction(function):
        raise UsageError(f"map_async takes a coroutine function (async def), not {function!r}")
    _check_arguments("map_async", function, 1)
    part = Part(
        lambda edges, chain, exact: AsyncHead(function, settings, edges, chain),
        by_key=parent.layout.has_key,
        takes_chain=True,
    )
    layout = parent.layout.with_record(record_of(return_annotation(function)))
    return Operator(Kind.COMPONENT, name, "map_async", (parent,), part, layout, parallelism)


def process(parent: Operator, bolt: Bolt | BasicBolt, name: str, parallelism: int | None) -> Operator:
    """Add a bolt of the user. Raises UsageError if it is none, or has no default stream."""
    if not isinstance(bolt, Bolt | BasicBolt):
        raise UsageError(f"process takes a bolt, not {bolt!r}")
    layout = layout_of(bolt, "process")
    return Operator(Kind.COMPONENT, name, "process", (parent,), _part_of(parent, bolt), layout, parallelism)


def sink(parent: Operator, target: Any, fields: Sequence[str], name: str, parallelism: int | None) -> Operator:
    """Add a sink. Raises UsageError if it is none, or the names of its fields are no names of Python."""
    if fields:
        parent = _with_fields(parent, tuple(fields))
    if isinstance(target, TransactionalSink):
        part = Part(
            lambda edges, chain, exact: ExactlyOnceSinkBolt(target) if exact else RowSinkBolt(target), settles=True
        )
    elif isinstance(target, Bolt | BasicBolt):
        part = dataclasses.replace(_part_of(parent, target), settles=isinstance(target, ExactlyOnceSinkBolt))
    else:
        raise UsageError(f"sink takes a sink of tupletree.connectors or a bolt, not {target!r}")
    return Operator(Kind.COMPONENT, name, "sink", (parent,), part, parent.layout, parallelism)


def printing(parent: Operator, prefix: str, name: str) -> Operator:
    """Add the printing of elements."""
    return Operator(Kind.PRINT, name, "print", (parent,), Printer(prefix, parent.layout.has_key), parent.layout)


class Printer:
    """Prints elements, with their keys if ``has_key``."""

    def __init__(self, prefix: str, has_key: bool) -> None:
        self.prefix = prefix
        self.has_key = has_key

    def __call__(self, key: Any, element: Any) -> None:
        shown = f"{key}: {element}" if self.has_key else str(element)
        print(self.prefix + shown, flush=True)


class _Row:
    """Makes a row of an element; of a pair of key and element if ``has_key``."""

    def __init__(self, record: Any, has_key: bool) -> None:
        self.record = record
        self.has_key = has_key

    def __call__(self, element: Any) -> Any:
        key, value = element if self.has_key else (None, element)
        first = [key] if self.has_key else []
        is_one = len(self.record._fields) == len(first) + 1
        return self.record(*first, *([value] if is_one else value))


def _with_fields(parent: Operator, fields: tuple[str, ...]) -> Operator:
    has_key = parent.layout.has_key
    try:
        record = row_type(fields)
    except ValueError as error:
        raise UsageError(f"sink: fields: {error}") from None
    if has_key:
        parent = items(parent, "")
    layout = parent.layout.with_record(record)
    return Operator(Kind.MAP, "", "fields", (parent,), _Row(record, has_key), layout)


def _part_of(parent: Operator, bolt: Any) -> Part:
    if isinstance(bolt, KeyedProcess):
        return Part(lambda edges, chain, exact: bolt, by_fields=bolt.key_fields, is_stateful=True)
    is_stateful = isinstance(bolt, StatefulBolt)
    return Part(lambda edges, chain, exact: bolt, by_key=parent.layout.has_key, is_stateful=is_stateful)


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
    _check_arguments(title, function, count)


def _check_arguments(title: str, function: Any, count: int) -> None:
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # functions of C need not have one
        return
    try:
        signature.bind(*[None] * count)
    except TypeError:
        wanted = {0: "no argument", 1: "one argument", 2: "two arguments"}[count]
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(f"{title} calls {name} with {wanted}, and it takes {signature}") from None
