"""The fields in which the elements of a stream travel between two components.

    value                             an element, as it is
    key, value                        an element of a keyed stream
    key, time, value                  ... with event time, in milliseconds
    key, time, user, amount           ... whose elements are objects of a NamedTuple or dataclass with these fields
    key                               to an operator that needs no more, such as count

An object of a record travels as its fields, so that a sink finds its columns, and no class must be marked.
"""

from __future__ import annotations  # pure

import dataclasses
import inspect
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from tupletree.tuples import record_fields

KEY: Final = "key"
TIME: Final = "time"
VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class Layout:
    """The form of a stream's elements.

    Attributes:
        has_key, has_time: each element has a key, or an event time.
        record: the NamedTuple or dataclass of which the elements are; None: of any type that a tuple may carry.
        single: the field of an element that is no record.
        has_value: the element itself travels, not only its key.
    """

    has_key: bool = False
    has_time: bool = False
    record: Any = None
    single: str = VALUE
    has_value: bool = True

    @property
    def value_fields(self) -> tuple[str, ...]:
        """The fields of the element itself."""
        if not self.has_value:
            return ()
        return (self.single,) if self.record is None else record_fields(self.record)

    @property
    def key_field(self) -> str:
        """The field of the key."""
        return self._free(KEY)

    @property
    def time_field(self) -> str:
        """The field of the event time."""
        return self._free(TIME)

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields, in order."""
        return (
            *([self.key_field] if self.has_key else []),
            *([self.time_field] if self.has_time else []),
            *self.value_fields,
        )

    @property
    def is_dataclass(self) -> bool:
        """True if the elements are objects of a dataclass."""
        return self.record is not None and dataclasses.is_dataclass(self.record)

    @property
    def plain(self) -> Layout:
        """This layout with the element as one value."""
        return Layout(self.has_key, self.has_time)

    def with_record(self, record: Any) -> Layout:
        """Return this layout for elements of another type."""
        return Layout(self.has_key, self.has_time, record)

    def _free(self, name: str) -> str:
        while name in self.value_fields:
            name += "_"
        return name


def record_of(annotation: Any) -> Any:
    """Return the annotation if it is a NamedTuple or dataclass with fields, else None."""
    try:
        return annotation if record_fields(annotation) else None
    except TypeError:  # also unhashable
        return None


def return_annotation(function: Any) -> Any:
    """Return the annotation of what a function returns, or the class that it is; None if that is unknown."""
    if isinstance(function, type):
        return function
    try:
        named = function if inspect.isroutine(function) else type(function).__call__
        return typing.get_type_hints(named).get("return")
    except Exception:  # whatever annotations raise
        return None


def guarded_annotation(function: Any) -> Any:
    """Return the type of elements for which a predicate is true: that of its TypeGuard or TypeIs; None without."""
    annotation = return_annotation(function)
    is_guard = getattr(typing.get_origin(annotation), "_name", "") in ("TypeGuard", "TypeIs")
    return typing.get_args(annotation)[0] if is_guard else None


def item_annotation(function: Any) -> Any:
    """Return the annotation of what an iterable that a function returns has in it; None if that is unknown."""
    annotation = return_annotation(function)
    origin = typing.get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return next(iter(typing.get_args(annotation)), None)
    return None
