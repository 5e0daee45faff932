"""A component of a topology as the builder knows it: the object, its settings, inputs and outputs."""

from __future__ import annotations  # pure

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tupletree._chained import Chained
from tupletree.outputs import Stream
from tupletree.v1.topology_pb2 import ComponentKind, GroupingKind


@dataclass(frozen=True, slots=True)
class Input:
    """A bolt's subscription to one stream of a component."""

    source: str
    stream: str
    grouping: GroupingKind
    fields: tuple[str, ...] = ()
    custom: Any = None


@dataclass(slots=True)
class Definition:
    """One component as the builder knows it."""

    id: str
    kind: ComponentKind
    component: Any
    parallelism: int
    outputs: Mapping[str, Stream]
    inputs: list[Input] = field(default_factory=list)
    conf: dict[str, Any] = field(default_factory=dict)
    chained: Chained | None = None
    """The chain that the rows of a spout pass before they are emitted (_chained.py)."""

    @property
    def sent(self) -> Any:
        """The object that each task gets a copy of: the component, or a pair of the component and its chain."""
        return self.component if self.chained is None else (self.component, self.chained)

    @property
    def title(self) -> str:
        """The component's name in error messages: ``bolt 'count'``."""
        return f"{'spout' if self.kind == ComponentKind.COMPONENT_KIND_SPOUT else 'bolt'} '{self.id}'"

    @property
    def tasks(self) -> int:
        return int(self.conf.get("topology.tasks") or self.parallelism)

    def copy(self) -> Definition:
        """Return a copy that later builder calls do not change. The component itself is shared."""
        return replace(self, inputs=list(self.inputs), conf=dict(self.conf))
