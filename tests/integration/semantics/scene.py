"""A topology in which the test decides, tuple by tuple, what a bolt does with its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from local_components import Log

from tupletree import Bolt, TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster

_orders: list[Callable[[Log, Any], Any]] = []


def numbered(do: Callable[[Log, Any], Any]) -> int:
    """Return the number of a function, as a tuple carries it."""
    _orders.append(do)
    return len(_orders) - 1


class Holding(Bolt):
    """Keeps its inputs in a log and does with them what the test says.

    The test must not touch a collector from its own thread, so it feeds this bolt an order: a tuple with the field
    "order", whose value is the number of a function of (held, collector).
    """

    def __init__(self, held: Log, outputs: Any = ()) -> None:
        self.held = held
        self.outputs = outputs

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        if tup.fields == ("order",):
            _orders[tup[0]](self.held, self.collector)
        else:
            self.held.append(tup)


class Scene:
    """spout -> holder (and what the test adds), where the test decides tuple by tuple what the holder does."""

    def __init__(self, cluster: LocalCluster, outputs: Any = (), fields: Any = ("n",)) -> None:
        self.cluster = cluster
        self.feeder = FeederSpout(list(fields))
        self.orders = FeederSpout(["order"])
        self.held = Log()
        self.builder = TopologyBuilder()
        self.builder.set_spout("spout", self.feeder)
        self.builder.set_spout("orders", self.orders)
        holder = self.builder.set_bolt("holder", Holding(self.held, outputs))
        holder.shuffle_grouping("spout").global_grouping("orders")

    def start(self, conf: Any = None) -> Scene:
        self.cluster.submit("t", self.builder.create_topology(), conf)
        return self

    def feed(self, values: Any, msg_id: Any = None) -> Any:
        """Emit a tuple and return it as the holder has received it."""
        self.feeder.feed(values, msg_id)
        self.cluster.wait_quiet()
        return self.held[-1]

    def order(self, do: Callable[[Log, Any], Any]) -> None:
        self.orders.feed([numbered(do)])
        self.cluster.wait_quiet()

    @property
    def outcome(self) -> tuple[list[Any], list[Any]]:
        self.cluster.wait_quiet()
        return self.feeder.acked, self.feeder.failed


def anchoring(cluster: LocalCluster) -> tuple[Scene, Log]:
    """A scene whose holder emits to a second holder, "below", that takes orders too."""
    scene = Scene(cluster, outputs=["n"])
    below = Log()
    scene.builder.set_bolt("below", Holding(below)).shuffle_grouping("holder").global_grouping("below-orders")
    scene.below_orders = FeederSpout(["order"])  # type: ignore[attr-defined]
    scene.builder.set_spout("below-orders", scene.below_orders)  # type: ignore[attr-defined]
    return scene.start(), below


def order_below(scene: Scene, do: Callable[[Log, Any], Any]) -> None:
    scene.below_orders.feed([numbered(do)])  # type: ignore[attr-defined]
    scene.cluster.wait_quiet()
