"""Checks of what a program is given, where it is given: durations, sinks, and the fields that a sink needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tupletree.connectors.row_sinks import RowSinkBolt
from tupletree.errors import TopologyError, UsageError
from tupletree.keyed import Session, Sliding, Tumbling
from tupletree.keyed.settings import duration_fault
from tupletree.streams.edges import Edge

_DURATIONS: Final[Mapping[type, Sequence[str]]] = {Session: ["gap"], Tumbling: ["size"], Sliding: ["size", "every"]}


def check_times(max_lag: object, idle_timeout: object) -> None:
    """Check the arguments of ``event_time``. Raises UsageError."""
    _check("event_time: max_lag", max_lag, 0)
    if idle_timeout is not None:
        _check("event_time: idle_timeout", idle_timeout)


def check_window(window: object, emission: Mapping[str, Any]) -> None:
    """Check the durations of a window. Raises UsageError; what is no window is refused by the topology.

    ``window``, ``emission``: attributes of a KeyedWindow.
    """
    for name in _DURATIONS.get(type(window), ()):
        _check(f"{type(window).__name__}: {name}", getattr(window, name))
    for name, least_ms in (("allowed_lateness", 0), ("early_every", 1)):
        if emission.get(name) is not None:
            _check(f"window: {name}", emission[name], least_ms)


def _check(name: str, value: object, least_ms: int = 1) -> None:
    if fault := duration_fault(value, least_ms):
        raise UsageError(f"{name} {fault}")


def settling(target: object) -> str:
    """Return what to use in place of a bolt that does not write with checkpoints."""
    if isinstance(target, RowSinkBolt):
        return f"pass the sink itself, the {type(target.sink).__name__}, without RowSinkBolt"
    return f"use {getattr(target, 'settled_by', '') or 'a sink such as PostgresSink'}"


def advise_record(component: str, inputs: Sequence[Edge], error: TopologyError) -> None:
    """Raise a TopologyError with the remedy if a component lacks a field of an input whose elements are no records."""
    if error.component != component or not error.field:
        return
    plain = [edge.layout for edge in inputs if edge.layout.record is None and edge.layout.has_value]
    if not plain or "does not have" not in str(error):
        return
    raise TopologyError(
        f"{error}: it is not known that the elements have named fields; annotate the result of the function that makes "
        f"them with a NamedTuple or dataclass, or name the columns: sink(…, fields=[…])",
        component=error.component,
        field=error.field,
    ) from error
