"""Tupletree: Storm's processing model for Python people.

Spouts and bolts are plain Python; every tuple tree is tracked by XOR ledgers in dedicated acker services. This module
holds the public names; ``tupletree.testing`` runs topologies in tests.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tupletree import _compiled as _compiled  # before any module that may be compiled
from tupletree._wire.codec import register_type
from tupletree._wire.value_types import value
from tupletree.backoff import Backoff
from tupletree.batching_bolt import BatchingBolt
from tupletree.combiner import CombinerBolt
from tupletree.component import BasicBolt, BasicStatefulBolt, Bolt, Spout, StatefulBolt, TopologyContext
from tupletree.config import Config, TopologyConf
from tupletree.errors import FailedException, ReportedFailedException, TupletreeError
from tupletree.function_components import bolt, spout
from tupletree.grouping import CustomGrouping
from tupletree.reliable_spout import Message, ReliableSpout
from tupletree.topology import Topology, TopologyBuilder, direct
from tupletree.tuples import Tuple

if TYPE_CHECKING:
    from tupletree.async_bolt import AsyncBolt
    from tupletree.client import (
        ClusterDescription,
        ClusterHealth,
        NimbusClient,
        TopologyDescription,
        TopologyRecord,
        TopologyStatus,
        TopologySummary,
    )
    from tupletree.joins import IntervalJoin, TableJoin
    from tupletree.keyed import CountWindow, KeyedProcess, KeyedWindow, Session, Sliding, Tumbling
    from tupletree.windows import StatefulWindowedBolt, Window, WindowedBolt

__all__ = [
    "AsyncBolt",
    "Backoff",
    "BasicBolt",
    "BasicStatefulBolt",
    "BatchingBolt",
    "Bolt",
    "ClusterDescription",
    "ClusterHealth",
    "CombinerBolt",
    "Config",
    "CountWindow",
    "CustomGrouping",
    "FailedException",
    "IntervalJoin",
    "KeyedProcess",
    "KeyedWindow",
    "Message",
    "NimbusClient",
    "ReliableSpout",
    "ReportedFailedException",
    "Session",
    "Sliding",
    "Spout",
    "StatefulBolt",
    "StatefulWindowedBolt",
    "TableJoin",
    "Topology",
    "TopologyBuilder",
    "TopologyConf",
    "TopologyContext",
    "TopologyDescription",
    "TopologyRecord",
    "TopologyStatus",
    "TopologySummary",
    "Tumbling",
    "Tuple",
    "TupletreeError",
    "Window",
    "WindowedBolt",
    "bolt",
    "direct",
    "register_type",
    "spout",
    "value",
]


_LATE: Final = {
    "tupletree.async_bolt": ("AsyncBolt",),
    "tupletree.joins": ("IntervalJoin", "TableJoin"),
    "tupletree.keyed": ("CountWindow", "KeyedProcess", "KeyedWindow", "Session", "Sliding", "Tumbling"),
    "tupletree.windows": ("StatefulWindowedBolt", "Window", "WindowedBolt"),
}
"""Names that are imported on first access: most programs and workers need none of them, or few."""
_MODULE_OF: Final = {name: module for module, names in _LATE.items() for name in names}


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    """Import a late name on first access: the client and its results are the rest, which workers never need."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULE_OF.get(name, "tupletree.client")), name)
    return found
