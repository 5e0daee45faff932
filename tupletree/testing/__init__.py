"""Tools for testing topologies.

``complete_topology`` runs a topology on fixed input and returns the emitted tuples. ``LocalCluster`` runs topologies in
this process, in real or simulated time; ``FeederSpout`` feeds them by hand. ``DevCluster`` starts a whole cluster of
real processes on this machine and can kill any of them. ``wait_until`` waits for a condition with a deadline.
"""

from __future__ import annotations

from tupletree._devcluster import DevCluster, ProcessInfo
from tupletree.testing.complete import complete_topology
from tupletree.testing.feeder import FeederSpout
from tupletree.testing.local_cluster import LocalCluster
from tupletree.testing.wait import wait_until

__all__ = ["DevCluster", "FeederSpout", "LocalCluster", "ProcessInfo", "complete_topology", "wait_until"]
