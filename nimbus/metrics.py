"""What nimbus shows at /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from .cycle import Loaded
from .views import free_slots


class NimbusMetrics:
    """All of a nimbus's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leading = Gauge("tupletree_nimbus_leading", "1 while this nimbus leads", registry=self.registry)
        self.epoch = Gauge("tupletree_nimbus_epoch", "Epoch of this nimbus's last leadership", registry=self.registry)
        self.topologies = Gauge("tupletree_nimbus_topologies", "Topologies that are not gone", registry=self.registry)
        self.supervisors = Gauge("tupletree_nimbus_supervisors", "Registered supervisors", registry=self.registry)
        self.ackers = Gauge("tupletree_nimbus_ackers", "Ackers that answer", registry=self.registry)
        self.slots = Gauge("tupletree_nimbus_slots", "Slots, by use", ["use"], registry=self.registry)
        self.dead_workers = Gauge(
            "tupletree_nimbus_dead_workers", "Assigned workers that fell silent", registry=self.registry
        )
        self.changes = Counter(
            "tupletree_nimbus_changes", "Topologies changed or removed by the scheduler", registry=self.registry
        )
        self.submissions = Counter(
            "tupletree_nimbus_submissions", "Submissions, by outcome", ["outcome"], registry=self.registry
        )
        self.reports = Counter("tupletree_nimbus_worker_reports", "Reports from workers", registry=self.registry)
        self.cycle_s = Histogram(
            "tupletree_nimbus_cycle_seconds",
            "Time to look at the cluster, decide and write",
            buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
            registry=self.registry,
        )

    def loaded(self, loaded: Loaded, ackers: int, dead: int) -> None:
        """Take the figures of one look at the cluster."""
        free = len(free_slots(loaded))
        total = sum(len(one.slots) for one in loaded.supervisors.values())
        self.topologies.set(len(loaded.records))
        self.supervisors.set(len(loaded.supervisors))
        self.ackers.set(ackers)
        self.slots.labels("free").set(free)
        self.slots.labels("used").set(total - free)
        self.dead_workers.set(dead)
