"""The operators of a program, as the user wrote them: a directed graph without cycles.

An operator is *narrow* if it needs nothing but the element: it runs wherever its input is. Every other operator is the
head of a component of its own.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tupletree.streams.layout import Layout


class Kind(Enum):
    """The kinds of operators."""

    SOURCE = "source"
    MAP = "map"
    FLAT_MAP = "flat_map"
    FILTER = "filter"
    PEEK = "peek"
    BRANCH = "branch"
    CASE = "case"
    """One output of a branch."""
    MERGE = "merge"
    KEY_BY = "key_by"
    ITEMS = "items"
    VALUES = "values"
    EVENT_TIME = "event_time"
    PRINT = "print"
    LATE = "late"
    """The elements that come too late for a component: a second output of it."""
    COMPONENT = "component"
    """A bolt: the user's own, a sink, or one of this package that the plan makes for an operator."""


NARROW = frozenset(
    {Kind.MAP, Kind.FLAT_MAP, Kind.FILTER, Kind.PEEK, Kind.BRANCH, Kind.CASE, Kind.MERGE, Kind.KEY_BY, Kind.ITEMS,
     Kind.VALUES, Kind.EVENT_TIME, Kind.PRINT}
)  # fmt: skip


@dataclass(eq=False, slots=True)
class Operator:
    """One operator.

    Attributes:
        kind: what it does.
        name: the name that the user gave, or "".
        title: what to call it in messages: the method of the stream that made it.
        parents: the operators whose output it takes.
        argument: a function, a spout or a bolt; what it is depends on the kind.
        layout: the form of the elements that it emits.
        parallelism: the number of executors that the user asked for, if any.
        settings: more of it, by kind.
        children: the operators that take its output.
    """

    kind: Kind
    name: str
    title: str
    parents: tuple[Operator, ...]
    argument: Any
    layout: Layout
    parallelism: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    children: list[Operator] = field(default_factory=list)

    def __post_init__(self) -> None:
        for parent in self.parents:
            parent.children.append(self)

    @property
    def is_narrow(self) -> bool:
        """True if it can run in the component that its input comes from."""
        return self.kind in NARROW
