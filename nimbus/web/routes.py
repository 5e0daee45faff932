"""Every path of the REST interface: how it is asked, which right it takes, and what answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from .calls import Call
from .pages import Pages

Right = Literal["read", "conf", "activate", "deactivate", "rebalance", "kill"]
Answer = Callable[[Pages, Call], Awaitable[Any]]

PREFIX: Final = "/api/v1"


@dataclass(frozen=True)
class Endpoint:
    """One path and method."""

    method: Literal["GET", "POST"]
    path: str  # below PREFIX, with {…} for what varies
    right: Right  # what a user must be allowed, on the topology {id} if the path has one
    answer: Answer
    summary: str


ENDPOINTS: Final = (
    Endpoint("GET", "/cluster/configuration", "conf", Pages.cluster_configuration, "nimbus's configuration"),
    Endpoint("GET", "/cluster/summary", "read", Pages.cluster_summary, "The cluster in figures"),
    Endpoint("GET", "/cluster/overview", "read", Pages.cluster_overview, "What every topology did lately"),
    Endpoint("GET", "/nimbus/summary", "read", Pages.nimbus_summary, "Every nimbus, the leader first"),
    Endpoint("GET", "/owner-resources", "read", Pages.owners, "What the topologies of each owner use"),
    Endpoint("GET", "/owner-resources/{id}", "read", Pages.owner, "What the topologies of one owner use"),
    Endpoint("GET", "/history/summary", "read", Pages.history, "The topologies whose logs may be read"),
    Endpoint("GET", "/supervisor/summary", "read", Pages.supervisor_summary, "Every supervisor"),
    Endpoint("GET", "/supervisor", "read", Pages.supervisor, "One supervisor by id, or those of a host"),
    Endpoint("GET", "/topology/summary", "read", Pages.topology_summary, "Every topology"),
    Endpoint("GET", "/topology/{id}", "read", Pages.topology, "One topology"),
    Endpoint("GET", "/topology-workers/{id}", "read", Pages.topology_workers, "Where its workers are"),
    Endpoint("GET", "/topology/{id}/component/{component}", "read", Pages.component, "One component"),
    Endpoint("GET", "/acker/summary", "read", Pages.acker_summary, "Every acker"),
    Endpoint("GET", "/acker/{id}", "read", Pages.acker, "One acker and its shards"),
    Endpoint("POST", "/topology/{id}/activate", "activate", Pages.activate, "Let the spouts emit"),
    Endpoint("POST", "/topology/{id}/deactivate", "deactivate", Pages.deactivate, "Let the spouts pause"),
    Endpoint("POST", "/topology/{id}/rebalance/{wait}", "rebalance", Pages.rebalance, "Place the executors anew"),
    Endpoint("POST", "/topology/{id}/kill/{wait}", "kill", Pages.kill, "End the topology"),
)
