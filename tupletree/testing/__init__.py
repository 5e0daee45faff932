"""Tools for testing topologies.

``run_bolt`` runs one bolt on tuples made by ``make_tuple``; a ``Recorder`` has collectors that record.
``complete_topology`` runs a topology on fixed input and returns the emitted tuples. ``LocalCluster`` runs topologies in
this process, in real or simulated time; ``FeederSpout`` feeds them by hand. ``simulate`` runs a topology amid seeded
faults of workers and the network, and judges what became of each message. ``DevCluster`` starts a whole cluster of
real processes on this machine and can kill any of them. ``wait_until`` waits for a condition with a deadline.
"""

from __future__ import annotations

from tupletree._devcluster import DevCluster, ProcessInfo
from tupletree.testing.complete import Completed, PendingTuplesError, complete_topology
from tupletree.testing.counts import ComponentCounts
from tupletree.testing.feeder import FeederSpout
from tupletree.testing.local_cluster import LocalCluster
from tupletree.testing.recorder import Emitted, Recorder
from tupletree.testing.simulation.external import external
from tupletree.testing.simulation.outcome import CounterexampleError, Outcome, Report
from tupletree.testing.simulation.simulate import simulate
from tupletree.testing.units import make_tick, make_tuple, run_bolt
from tupletree.testing.wait import wait_until

__all__ = [
    "Completed",
    "ComponentCounts",
    "CounterexampleError",
    "DevCluster",
    "Emitted",
    "FeederSpout",
    "LocalCluster",
    "Outcome",
    "PendingTuplesError",
    "ProcessInfo",
    "Recorder",
    "Report",
    "complete_topology",
    "external",
    "make_tick",
    "make_tuple",
    "run_bolt",
    "simulate",
    "wait_until",
]
