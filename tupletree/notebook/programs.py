"""The programs that a notebook can run: those of streams, topologies and their builders; and their graphs."""

from __future__ import annotations  # pure

from typing import Any

from tupletree._definition import Definition
from tupletree.errors import UsageError
from tupletree.outputs import RESERVED_PREFIXES
from tupletree.streams import StreamBuilder
from tupletree.streams.drawing import Box
from tupletree.topology import Topology, TopologyBuilder

Program = StreamBuilder | TopologyBuilder | Topology
"""A program of streams, or a topology or its builder."""


def topology_of(program: Program) -> Topology:
    """Return the topology of a program.

    Raises:
        UsageError: ``program`` is none of these, or has a mistake.
        TopologyError: as ``create_topology``.
    """
    if isinstance(program, StreamBuilder):
        return program.topology()
    if isinstance(program, TopologyBuilder):
        return program.create_topology()
    if not isinstance(program, Topology):
        raise UsageError(f"a StreamBuilder, a TopologyBuilder or a Topology can run, not a {type(program).__name__}")
    return program


def graph_of(program: Program, topology: Topology) -> list[Box]:
    """Return the components of a program as boxes, without those that the library adds; ``topology``: its topology."""
    if isinstance(program, StreamBuilder):
        return program.graph()
    return [_box(one) for id, one in topology.components.items() if not id.startswith(RESERVED_PREFIXES)]


def _box(one: Definition) -> Box:
    labels: dict[str, str] = {}
    for given in one.inputs:
        if not given.source.startswith(RESERVED_PREFIXES) and not given.stream.startswith(RESERVED_PREFIXES):
            labels[given.source] = f"by {', '.join(given.fields)}" if given.fields else labels.get(given.source, "")
    executors = f"{one.parallelism} executor{'' if one.parallelism == 1 else 's'}"
    title = _title(one.component)
    return Box(one.id, (one.id, title, executors), f"{title}, {executors}", tuple(labels.items()))


def _title(component: Any) -> str:
    """Return the function of a function component, or else the class."""
    function = getattr(component, "function", None)
    return str(getattr(function, "__name__", "")) or type(component).__name__
