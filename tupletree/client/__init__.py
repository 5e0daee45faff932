"""The client of a cluster: submit and manage topologies.

    with NimbusClient("cluster.example:6627") as client:
        topology_id = client.submit("word-count", topology, {"topology.workers": 2})
        client.describe("word-count")
        client.kill("word-count", wait_secs=0)

Every method calls the leading nimbus, which the client finds through any of the seeds. Errors are those of
``tupletree.errors``. A client is thread-safe.
"""

from __future__ import annotations

from tupletree.client.nimbus import NimbusClient, Progress

__all__ = ["NimbusClient", "Progress"]
