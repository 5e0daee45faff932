"""Sources of a program that are not spouts: generator functions and collections."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import NoneType
from typing import Any

from tupletree.component import Spout
from tupletree.errors import UsageError
from tupletree.function_components import FunctionSpout
from tupletree.outputs import DEFAULT_STREAM, FieldsDeclarer
from tupletree.reliable_spout import ReliableSpout
from tupletree.streams.elements import check_record
from tupletree.streams.layout import VALUE, Layout, item_annotation, record_of
from tupletree.tuples import record_fields


class ElementSpout(ReliableSpout):
    """Emits the elements that a function yields, or those of a collection, each as a tuple with one value.

    It reads again what was not processed, so the function must yield the same elements in the same order each time. A
    None that it yields is no element: nothing is there now, and the function is asked again a moment later.

    ``record``: the NamedTuple or dataclass of which all elements are; None: they are of other types.
    """

    def __init__(self, elements: Callable[[], Iterable[Any]] | Iterable[Any], record: Any) -> None:
        self.elements = elements
        self.record = record
        self.outputs = [VALUE] if record is None else record  # type: ignore[misc]  # set per instance

    def read(self) -> Iterator[Sequence[Any] | None]:
        if not callable(self.elements):
            return iter(self.elements) if self.record is not None else ([element] for element in self.elements)
        elements = self.elements()
        if not isinstance(elements, Iterable):
            raise UsageError(f"the function of a source must yield its elements, or return a list, not {elements!r}")
        if dataclasses.is_dataclass(self.record):
            return map(self._checked, elements)
        if self.record is not None:
            return iter(elements)
        return (None if element is None else [element] for element in elements)

    def _checked(self, element: Any) -> Any:
        if type(element) is not self.record and element is not None:
            check_record(self.record, element)
        return element


def spout_of(source: object) -> Spout:
    """Return the spout of a source.

    Raises:
        UsageError: the source is neither a spout, nor a function without arguments that yields or returns elements, nor
            a collection.
    """
    if isinstance(source, Spout):
        return source
    if isinstance(source, type) and issubclass(source, Spout):
        raise UsageError(f"source takes a spout, not the class {source.__name__}: write {source.__name__}(…)")
    if inspect.isgenerator(source) or isinstance(source, Iterator):
        raise UsageError(
            f"source takes what can be read again, not {type(source).__name__}, which can be read once: pass the "
            f"function that makes it, or a list"
        )
    if isinstance(source, str | bytes):
        raise UsageError(
            f"source takes a spout, a generator function or a list, not {source!r}: for files, write FileSpout(…)"
        )
    if isinstance(source, set | frozenset):
        raise UsageError(
            "source takes what has an order, as it goes on after a crash where it was, and the order of a set is "
            "another one in each process: write sorted(…)"
        )
    if isinstance(source, Iterable):
        return ElementSpout(source, _record_of(source))
    if inspect.iscoroutinefunction(source) or inspect.isasyncgenfunction(source):
        raise UsageError("source calls its function and does not await it: write it without async")
    if callable(source):
        check_arguments("source", source, 0)
        return ElementSpout(source, _record_of(source))
    raise UsageError(f"source takes a spout, a generator function or a list, not {source!r}")


def pipeline_spout(pipeline: Any, rows: Any) -> Spout:
    """Return the spout of a pipeline's results. ``rows``: the record of their columns; None: see ``from_pipeline``.

    Raises:
        UsageError: the pipeline has not exactly one ParquetDirectory, or no columns are named.
        TopologyError: the pipeline is faulty.
    """
    from tupletree.connectors.pipeline_log import PipelineSpout
    from tupletree.spark import ParquetDirectory
    from tupletree.spark.pipeline import checked

    given = checked(pipeline)
    title = f"from_pipeline: {type(given).__name__}"
    directories = [sink for sink in given.all_sinks() if isinstance(sink, ParquetDirectory)]
    if len(directories) != 1:
        raise UsageError(f"{title} has {len(directories)} sinks of class ParquetDirectory; one was expected")
    if rows is not None and record_of(rows) is None:
        raise UsageError(f"from_pipeline: rows is {rows!r}; a NamedTuple or dataclass was expected")
    fields = list(given.outputs or ()) if rows is None else list(record_fields(rows))
    if not fields:
        raise UsageError(f"{title} has no outputs, which would name the columns: write from_pipeline(…, rows=…)")
    return PipelineSpout(directories[0].path, fields, is_opaque=given.source.is_opaque)


def check_arguments(title: str, function: Callable[..., Any], count: int) -> None:
    """Check that a function can be called with ``count`` arguments. Raises UsageError if it cannot."""
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


def _record_of(source: Any) -> Any:
    """Return the record of which the elements of a source are; None if there is none, or it is unknown."""
    if callable(source):
        annotation = item_annotation(source)
        parts = [part for part in typing.get_args(annotation) if part is not NoneType]
        is_optional = NoneType in typing.get_args(annotation) and len(parts) == 1  # a None is no element
        return record_of(parts[0] if is_optional else annotation)
    types = {type(element) for element in source}
    return record_of(types.pop()) if len(types) == 1 else None


def layout_of(component: Any, title: str, rows: type | None = None) -> Layout:
    """Return the layout of what a component emits on its default stream.

    ``rows``: the NamedTuple or dataclass to make of each row. Without it, a row of one field is the value of the field,
    and a row of several is an object of the record that the component declares, or else a named tuple of its fields.

    Raises:
        UsageError: the component has no default stream, or the fields of ``rows`` are others.
    """
    declarer = FieldsDeclarer(title)
    component.declare_output_fields(declarer)
    stream = declarer.streams.get(DEFAULT_STREAM)
    if stream is None:
        raise UsageError(f"{title}: {type(component).__name__} has no stream 'default'")
    if rows is not None:
        layout = Layout(record=rows)
        if layout.value_fields != stream.fields:
            raise UsageError(
                f"{title}: {rows.__name__} has the fields {', '.join(layout.value_fields)}, and the rows of "
                f"{type(component).__name__} have {', '.join(stream.fields)}"
            )
        return layout
    if stream.record is not None:
        return Layout(record=stream.record)
    if len(stream.fields) == 1:
        return Layout(single=stream.fields[0])
    try:
        return Layout(record=row_type(stream.fields))
    except ValueError:
        fields = ", ".join(stream.fields)
        raise UsageError(
            f"{title}: the fields {fields} of {type(component).__name__} are not all names in Python"
        ) from None


@functools.lru_cache
def row_type(fields: tuple[str, ...]) -> Any:
    """Return a named tuple with these fields; its name depends on them alone, as it is stored in states.

    Raises:
        ValueError: a field is not a name in Python.
    """
    return namedtuple("Row_" + "_".join(fields), fields)


def default_name(source: object) -> str:
    """Return the name of a source that has none: that of its function."""
    function = source.function if isinstance(source, FunctionSpout) else source
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() else "source"
