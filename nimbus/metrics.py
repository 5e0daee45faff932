"""The metrics of nimbus at /metrics. Only the leader exports the metrics of the whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tupletree._daemon.health import Readiness
from tupletree._daemon.metrics import daemon_registry
from tupletree.v1.topology_pb2 import TopologyStatus

STATUSES = tuple(name.removeprefix("TOPOLOGY_STATUS_").lower() for name in TopologyStatus.keys()[1:])


@dataclass(frozen=True, slots=True)
class TopologyFigures:
    """Metrics of one topology, as the leader sees them."""

    name: str
    status: str
    workers: int  # assigned workers
    ready: int  # assigned workers that report ready
    is_unscheduled: bool
    shards_without_acker: int
    wanted_executors: Mapping[str, int] = field(default_factory=dict)  # by component that is scaled by its load
    wanted_workers: int | None = None  # None if the topology is not scaled by its load


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """Metrics of the cluster, as the leader last saw it."""

    supervisors: int
    ackers: int
    slots_free: int
    slots_used: int
    dead_workers: int
    topologies: tuple[TopologyFigures, ...]
    blacklisted_supervisors: int = 0


class _Cluster(Collector):
    """Collector of the cluster metrics. Empty before the first scheduling round and while this nimbus does not lead."""

    def __init__(self) -> None:
        self.look: Callable[[], ClusterFigures] | None = None

    def collect(self) -> Iterator[Metric]:
        families = {
            name: GaugeMetricFamily(f"tupletree_nimbus_{name}", text, labels=labels)
            for name, text, labels in (
                ("topologies", "Topologies, including killed ones until they are removed.", ()),
                ("supervisors", "Registered supervisors.", ()),
                ("blacklisted_supervisors", "Supervisors that get no new workers, as they failed too often.", ()),
                ("ackers", "Ackers that answer.", ()),
                ("slots", "Slots, by use.", ("use",)),
                ("dead_workers", "Assigned workers without a report for longer than their timeout.", ()),
                ("topology_status", "1; the status of each topology.", ("topology", "status")),
                ("topology_workers", "Workers of a topology that have a slot.", ("topology",)),
                ("topology_ready_workers", "Workers of a topology that report ready.", ("topology",)),
                ("topology_unscheduled", "1 while a topology is not fully scheduled.", ("topology",)),
                (
                    "autoscale_wanted_executors",
                    "Executors that the load of a component calls for (topology.autoscale).",
                    ("topology", "component"),
                ),
                (
                    "autoscale_wanted_workers",
                    "Workers that the load of a topology calls for (topology.autoscale).",
                    ("topology",),
                ),
                ("topology_shards_without_acker", "Shards of a topology that no acker serves.", ("topology",)),
            )
        }
        if self.look is not None:
            _fill(families, self.look())
        yield from families.values()


def _fill(families: dict[str, GaugeMetricFamily], seen: ClusterFigures) -> None:
    for name in ("supervisors", "blacklisted_supervisors", "ackers", "dead_workers"):
        families[name].add_metric([], getattr(seen, name))
    families["topologies"].add_metric([], len(seen.topologies))
    families["slots"].add_metric(["free"], seen.slots_free)
    families["slots"].add_metric(["used"], seen.slots_used)
    for one in seen.topologies:
        families["topology_status"].add_metric([one.name, one.status], 1)
        families["topology_workers"].add_metric([one.name], one.workers)
        families["topology_ready_workers"].add_metric([one.name], one.ready)
        families["topology_unscheduled"].add_metric([one.name], one.is_unscheduled)
        for component, wanted in one.wanted_executors.items():
            families["autoscale_wanted_executors"].add_metric([one.name, component], wanted)
        if one.wanted_workers is not None:
            families["autoscale_wanted_workers"].add_metric([one.name], one.wanted_workers)
        families["topology_shards_without_acker"].add_metric([one.name], one.shards_without_acker)


class NimbusMetrics:
    """All metrics of a nimbus, in a separate registry. ``blob_directory``: the directory of the bundles."""

    def __init__(self, readiness: Readiness, blob_directory: str) -> None:
        self.registry = registry = daemon_registry("nimbus", readiness, {"bundles": blob_directory})
        self._cluster = _Cluster()
        registry.register(self._cluster)
        self.leading = Gauge("tupletree_nimbus_leading", "1 while this nimbus leads.", registry=registry)
        self.epoch = Gauge("tupletree_nimbus_epoch", "Epoch of this nimbus's last leadership.", registry=registry)
        self.changes = Counter(
            "tupletree_nimbus_changes", "Topologies changed or removed by the scheduler.", registry=registry
        )
        self.submissions = Counter(
            "tupletree_nimbus_submissions", "Submissions, by outcome.", ["outcome"], registry=registry
        )
        self.autoscale_changes = Counter(
            "tupletree_nimbus_autoscale_changes",
            "Rebalances by topology.autoscale, by direction.",
            ["direction"],
            registry=registry,
        )
        self.reports = Counter("tupletree_nimbus_worker_reports", "Reports from workers.", registry=registry)
        self.cycle_s = Histogram(
            "tupletree_nimbus_cycle_seconds",
            "Duration of a scheduling round: read the cluster, decide, write.",
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
            registry=registry,
        )
        self._requests = Counter(
            "tupletree_nimbus_http_requests", "Requests answered, by route and status.", ["route", "status"],
            registry=registry,
        )  # fmt: skip

    def answered(self, route: str, status: int) -> None:
        """Count an answered request. ``route``: the matched path pattern, one of a fixed set."""
        self._requests.labels(route, str(status)).inc()

    def leads(self, epoch: int) -> None:
        """Record that this nimbus leads."""
        self.leading.set(1)
        self.epoch.set(epoch)

    def follows(self) -> None:
        """Record that this nimbus no longer leads, and stop exporting its outdated cluster metrics."""
        self.leading.set(0)
        self._cluster.look = None

    def read_from(self, look: Callable[[], ClusterFigures]) -> None:
        """Set the source of the cluster metrics. ``look`` returns the last view, with worker reports since then."""
        self._cluster.look = look
