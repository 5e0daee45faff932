"""Stand-ins for what is outside of a topology and outlives its workers, such as a database or a queue."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tupletree.errors import UsageError

T = TypeVar("T")

_makers: dict[str, Callable[[], Any]] = {}
_objects: dict[str, Any] = {}


class _External:
    """A reference to an external object. When a component that holds it is unpickled, the object takes its place."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return _find, (self.name,)


def external(make: Callable[[], T]) -> T:
    """Return a stand-in for an object outside of the topology, which all tasks share and no kill destroys.

        table = external(dict)
        builder.set_bolt("totals", Totals(table))

    Pass the result to the components that use it. In their tasks it is the object that ``make`` returned;
    ``simulate`` calls ``make`` anew for each history. Elsewhere the result has no use: in ``check``, the object is
    ``outcome.external(table)``. LocalCluster and complete_topology have one object for the whole process.
    """
    name = uuid.uuid4().hex
    _makers[name] = make
    return cast(T, _External(name))


def current(stand_in: T) -> T:
    """Return the object that an external stand-in stands for. Raises UsageError if it is none."""
    if not isinstance(stand_in, _External):
        raise UsageError(f"external takes what tupletree.testing.external returned, not {type(stand_in).__name__}")
    return cast(T, _find(stand_in.name))


def renew() -> None:
    """Have every external object made anew when it is next used."""
    _objects.clear()


def _find(name: str) -> Any:
    if name not in _objects:
        if name not in _makers:
            raise UsageError("a component holds an external() object, which exists in the process of a test alone")
        _objects[name] = _makers[name]()
    return _objects[name]
