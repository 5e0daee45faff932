"""Activity of every topology in the last ten minutes, for the UI's first view. An addition to Storm's API."""

from __future__ import annotations  # pure

from collections.abc import Iterable
from typing import Any, Final

from tupletree.v1 import topology_pb2 as pb

from .formatting import number_text, percentiles
from .topology import Topology, error, spout_totals

WINDOW: Final = "600"
LATELY_S: Final = 600.0
_ERRORS_SHOWN: Final = 5
_SPOUT: Final = pb.COMPONENT_KIND_SPOUT
_BOLT: Final = pb.COMPONENT_KIND_BOLT


def page(topologies: Iterable[Topology]) -> dict[str, Any]:
    """``cluster/overview``."""
    return {"window": WINDOW, "topologies": [_topology(one) for one in topologies]}


def _topology(topology: Topology) -> dict[str, Any]:
    now_s = topology.view.now_s
    spouts = topology.components(_SPOUT, sys=True)
    users = [task for one in topology.components(_SPOUT, sys=False) for task in topology.tasks(one)]
    trees = spout_totals(topology.figures(one, WINDOW) for one in spouts)
    shown = [one for kind in (_SPOUT, _BOLT) for one in topology.components(kind, sys=False)]
    emitted = sum(topology.statistics.rates(topology.tasks(one), now_s).emitted for one in shown)
    busiest = max(((topology.capacity(one), one) for one in topology.components(_BOLT, sys=False)), default=(0.0, ""))
    since_s = topology.view.now_unix_s - LATELY_S
    errors = [one for one in topology.complaints if one.latest.at_unix_s >= since_s]
    return {
        "id": topology.record.id,
        "emittedPerSecond": round(emitted, 3),
        "ackedPerSecond": round(topology.statistics.rates(users, now_s).acked, 3),
        "ackedLately": trees.count("acked"),
        "failedLately": trees.count("failed"),
        "timeoutsLately": trees.count("timeouts"),
        "completeLatency": number_text(trees.complete_ms),
        "completeLatencyPercentiles": percentiles(trees, "complete"),
        "pending": topology.statistics.gauges(users)["pending"],
        "capacity": number_text(busiest[0]),
        "busiest": busiest[1],
        "workersReady": topology.workers_ready(),
        "errorsLately": sum(one.at_unix_s >= since_s for one in topology.errors),
        "lastErrors": [error(one, topology) for one in errors[:_ERRORS_SHOWN]],
    }
