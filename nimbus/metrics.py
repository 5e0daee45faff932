"""What nimbus shows at /metrics; what concerns the whole cluster is shown by the leader alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tupletree._daemon.health import Readiness
from tupletree._daemon.metrics import daemon_registry
from tupletree.v1.topology_pb2 import TopologyStatus

STATUSES = tuple(name.removeprefix("TOPOLOGY_STATUS_").lower() for name in TopologyStatus.keys()[1:])


@dataclass(frozen=True, slots=True)
class TopologyFigures:
    """One topology as the leader sees it."""

    name: str
    status: str
    workers: int  # that it has places for
    ready: int  # of these, those that report that they are
    is_unscheduled: bool
    shards_without_acker: int


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """The cluster as the leader saw it last."""

    supervisors: int
    ackers: int
    slots_free: int
    slots_used: int
    dead_workers: int
    topologies: tuple[TopologyFigures, ...]


class _Cluster(Collector):
    """Shows the last look at the cluster; nothing before the first, and nothing of a nimbus that does not lead."""

    def __init__(self) -> None:
        self.look: Callable[[], ClusterFigures] | None = None

    def collect(self) -> Iterator[Metric]:
        families = {
            name: GaugeMetricFamily(f"tupletree_nimbus_{name}", text, labels=labels)
            for name, text, labels in (
                ("topologies", "Topologies that are not gone.", ()),
                ("supervisors", "Registered supervisors.", ()),
                ("ackers", "Ackers that answer.", ()),
                ("slots", "Slots, by use.", ("use",)),
                ("dead_workers", "Assigned workers that fell silent.", ()),
                ("topology_status", "1; the status of each topology.", ("topology", "status")),
                ("topology_workers", "Workers that a topology has places for.", ("topology",)),
                ("topology_ready_workers", "Workers of a topology that say that they are ready.", ("topology",)),
                ("topology_unscheduled", "1 while a part of a topology has no place, or no acker.", ("topology",)),
                ("topology_shards_without_acker", "Shards of a topology that no acker serves.", ("topology",)),
            )
        }
        if self.look is not None:
            _fill(families, self.look())
        yield from families.values()


def _fill(families: dict[str, GaugeMetricFamily], seen: ClusterFigures) -> None:
    for name in ("supervisors", "ackers", "dead_workers"):
        families[name].add_metric([], getattr(seen, name))
    families["topologies"].add_metric([], len(seen.topologies))
    families["slots"].add_metric(["free"], seen.slots_free)
    families["slots"].add_metric(["used"], seen.slots_used)
    for one in seen.topologies:
        families["topology_status"].add_metric([one.name, one.status], 1)
        families["topology_workers"].add_metric([one.name], one.workers)
        families["topology_ready_workers"].add_metric([one.name], one.ready)
        families["topology_unscheduled"].add_metric([one.name], one.is_unscheduled)
        families["topology_shards_without_acker"].add_metric([one.name], one.shards_without_acker)


class NimbusMetrics:
    """All of a nimbus's metrics, in a registry of their own. ``blob_directory``: where the bundles are."""

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
        self.reports = Counter("tupletree_nimbus_worker_reports", "Reports from workers.", registry=registry)
        self.cycle_s = Histogram(
            "tupletree_nimbus_cycle_seconds",
            "Time to look at the cluster, decide and write.",
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
            registry=registry,
        )
        self._requests = Counter(
            "tupletree_nimbus_http_requests", "Requests answered, by route and status.", ["route", "status"],
            registry=registry,
        )  # fmt: skip

    def answered(self, route: str, status: int) -> None:
        """A request was answered. ``route``: the pattern of the path that matched, of which there is a fixed number."""
        self._requests.labels(route, str(status)).inc()

    def leads(self, epoch: int) -> None:
        """This nimbus leads."""
        self.leading.set(1)
        self.epoch.set(epoch)

    def follows(self) -> None:
        """This nimbus does not lead any more, and what it knew of the cluster grows old."""
        self.leading.set(0)
        self._cluster.look = None

    def looked(self, look: Callable[[], ClusterFigures]) -> None:
        """The leader looked at the cluster: ``look`` says what it saw, with what workers have reported since."""
        self._cluster.look = look
