"""A complete cluster of real processes on this machine, for tests, the demo and ``tupletree dev``."""

from tupletree._devcluster.cluster import DevCluster
from tupletree._devcluster.running import ProcessInfo

__all__ = ["DevCluster", "ProcessInfo"]
