"""Tupletree: Storm's processing model for Python people.

Spouts and bolts are plain Python; every tuple tree is tracked by XOR ledgers in dedicated acker services. This module
holds the public names; ``tupletree.testing`` runs topologies in tests.
"""

from __future__ import annotations

from tupletree import _compiled as _compiled  # before any module that may be compiled
from tupletree._wire.codec import register_type
from tupletree.client import NimbusClient
from tupletree.component import BasicBolt, Bolt, Spout, TopologyContext
from tupletree.config import Config
from tupletree.errors import FailedException, ReportedFailedException, TupletreeError
from tupletree.grouping import CustomGrouping
from tupletree.topology import Topology, TopologyBuilder, direct
from tupletree.tuples import Tuple

__all__ = [
    "BasicBolt",
    "Bolt",
    "Config",
    "CustomGrouping",
    "FailedException",
    "NimbusClient",
    "ReportedFailedException",
    "Spout",
    "Topology",
    "TopologyBuilder",
    "TopologyContext",
    "Tuple",
    "TupletreeError",
    "direct",
    "register_type",
]
