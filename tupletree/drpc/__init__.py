"""DRPC: callers await the answer of a topology.

    client = DRPCClient("drpc-1:3772")                          # a caller: a web server, a script
    score = await client.execute_async("score", {"age": 41})

    builder.set_spout("requests", DRPCSpout("score"))           # the topology that answers
    builder.set_bolt("model", Score(), 4).shuffle_grouping("requests")
    builder.set_bolt("answers", ReturnResults()).shuffle_grouping("model")

The request's tuple tree decides when the answer is complete: each request is answered or fails exactly once.
"""

from __future__ import annotations

from tupletree.drpc.client import DRPCClient
from tupletree.drpc.linear import LinearDeclarer, LinearDRPCTopologyBuilder
from tupletree.drpc.local import LocalDRPC
from tupletree.drpc.return_results import ReturnResults
from tupletree.drpc.spout import DRPCSpout

__all__ = ["DRPCClient", "DRPCSpout", "LinearDRPCTopologyBuilder", "LinearDeclarer", "LocalDRPC", "ReturnResults"]
