"""The plan of a program, for people."""

from __future__ import annotations  # pure

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tupletree.streams.edges import Edge
from tupletree.streams.graph import Kind, Operator
from tupletree.streams.parts import Part
from tupletree.streams.plan import Component, Plan

Components = Mapping[str, Component]

ENDS: Final = frozenset({Kind.PRINT, Kind.PEEK, Kind.COMPONENT})
"""Operators that have an effect by themselves."""


def explained(plan: Plan) -> str:
    """Return one paragraph for each component: where its input comes from, why it stands alone, and its operators."""
    components = {one.id: one for one in plan.components}
    return "\n".join("\n    ".join(_lines(one, components)) for one in plan.components) + "\n"


def titles(component: Component) -> list[str]:
    """Return what to call the operators that run in a component, in order."""
    return [_title(one) for one in component.operators]


def executors(component: Component) -> str:
    """Return the number of executors of a component, in words."""
    return f"{component.parallelism} executor" + ("s" if component.parallelism > 1 else "")


def reasons(component: Component, components: Components) -> Iterator[str]:
    """Yield why the operators of a component do not run in the one before it. ``components``: all of them, by id."""
    head = component.head
    if component.is_narrow:
        inputs = [(components[edge.component], edge.stream) for edge in component.inputs]
        yield from dict.fromkeys(_reason_of_narrow(component, before, stream) for before, stream in inputs)
        if component.combines:
            yield "partial values: elements are added up for up to 50 ms or 5,000 inputs, and sent as one value per key"
    elif head.kind is Kind.SOURCE:
        yield "a source: its executors read" + ("" if component.chain is not None else ", and run no operators")
    elif isinstance(head.argument, Part):
        yield from _reasons_of_part(head.title, head.argument, component.inputs)


def _lines(component: Component, components: Components) -> Iterator[str]:
    yield f"{component.id}: {component.kind}, {executors(component)}"
    for edge in component.inputs:
        yield f"from {edge.component}, stream {edge.stream}, {component.way(edge)}"
    for reason in reasons(component, components):
        yield f"why: {reason}"
    yield f"runs {', '.join(titles(component))}"
    if idle := [_title(one) for one in component.operators if not one.children and one.kind not in ENDS]:
        yield f"the results of {', '.join(idle)} go nowhere: add print, peek, sink or an aggregation"


def _reason_of_narrow(component: Component, before: Component, stream: str) -> str:
    """Return why narrow operators do not run in ``before``, where their input comes from on a stream."""
    if before.late is not None and stream == before.head.argument.late_stream:
        return f"late elements: {before.id} passes them on as they came"
    is_source = before.head.kind is Kind.SOURCE and not before.is_narrow
    if before.parallelism != component.parallelism and (before.chain is not None or is_source):
        return f"own parallelism: {executors(component)}, and {before.id} has {before.parallelism}"
    if before.in_source:
        return f"behind a source: {before.id} gives event times, and would run these without flat_map or partial values"
    if is_source:
        times = "" if getattr(before.head.argument, "tells_partitions", False) else ", event_time"
        return f"behind a source: {before.id} would run these if there were no flat_map{times} or partial values"
    if before.chain is not None:
        return f"event times: {before.id} does not send the newest of them"
    return f"behind a bolt: {before.id} passes tuples on, and runs no operators"


def _reasons_of_part(title: str, part: Part, inputs: Sequence[Edge]) -> Iterator[str]:
    if part.by_key or part.by_fields:
        yield "a key exchange: all elements of a key go to one executor" + (", which has its state" * part.is_stateful)
    if any(edge.is_partial for edge in inputs):
        yield "it merges the partial values that are sent to it"
    if title == "process":
        yield "a bolt of the program: it takes tuples"
    elif title == "sink":
        yield "a sink: it writes in batches of its own"
    elif title == "map_async":
        yield "awaited calls: many at a time"


def _title(one: Operator) -> str:
    return f"{one.title} '{one.name}'" if one.name else one.title
