"""A topology of streamparse, as the reader finds it: plain values, for the rest of the import."""

from __future__ import annotations  # pure

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

PYTHON: Final = "python"
PROGRAM: Final = "program"
JAVA: Final = "java"


@dataclass(frozen=True)
class Input:
    """A stream that a bolt subscribes to. ``java``: the class of a custom grouping."""

    component: str
    stream: str
    grouping: str  # as the method of the builder, less "_grouping"; "custom" with ``java``
    fields: Sequence[str] = ()
    java: str = ""


@dataclass(frozen=True)
class Component:
    """A spout or bolt.

    ``kind``: a class in Python, a program (``command``) or a class in Java (``java``, with ``arguments``).
    ``parallelism``: executors, or those of each environment. ``own_config``: that of the class itself.
    ``refused``: the reason for which the class cannot be hosted; "" if it can.
    """

    name: str
    is_spout: bool
    kind: str
    parallelism: int | Mapping[str, int]
    config: Mapping[str, Any]
    outputs: Mapping[str, Mapping[str, Any]]  # fields and is_direct, by stream
    inputs: Sequence[Input] = ()
    module: str = ""
    cls: str = ""
    own_config: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""
    command: Sequence[str] = ()
    java: str = ""
    arguments: Sequence[Any] = ()


@dataclass(frozen=True)
class TopologyRead:
    """A topology. ``others``: further topologies of its file, which streamparse does not see.

    ``is_shadowing``: a module with the name of the file exists, so that a file of that name would hide it.
    ``uses_topologies``: components are defined beside the topology.
    """

    cls: str
    config: Mapping[str, Any]
    components: Sequence[Component]
    others: Sequence[str] = ()
    is_shadowing: bool = False
    uses_topologies: bool = False


@dataclass(frozen=True)
class Remark:
    """A thing that the import could not take or that is different here, and what to do."""

    subject: str
    sentence: str
    advice: str = ""
    is_open: bool = False  # the topology does not run before this is done


def topology_of(read: Mapping[str, Any]) -> TopologyRead:
    """Return the topology that the reader wrote as JSON."""
    components = [
        Component(**{**one, "inputs": [Input(**source) for source in one.get("inputs", ())]})
        for one in read["components"]
    ]
    return TopologyRead(**{**read, "components": components})
