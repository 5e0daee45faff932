"""Metrics of users: which names they may have, how many there may be, and what is shown of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tupletree import BasicBolt, TopologyBuilder, TopologyContext, metrics
from tupletree.component import BasicCollector
from tupletree.testing import FeederSpout, LocalCluster
from tupletree.tuples import Tuple
from tupletree.worker.reporting.metrics import add_tasks


def context() -> TopologyContext:
    return TopologyContext(
        topology_id="t", component_id="bolt", task_id=3, tasks={"bolt": [3]}, sources={}, targets={}, conf={}
    )


@pytest.mark.parametrize("name", ["", "Orders", "orders-done", "1st", "a.b", "_x", "ä", "a" * 101, None, "a:b"])
def test_a_name_that_prometheus_or_its_conventions_do_not_take_is_refused_with_a_sentence(name: Any) -> None:
    for register in ("register_metric", "register_counter", "register_gauge", "register_histogram", "register_timer"):
        with pytest.raises(ValueError, match=r"task 3 of 'bolt' registers a metric .*: a name consists of lower-case"):
            call = getattr(context(), register)
            call(name, lambda: 1.0) if register == "register_metric" else call(name)


@pytest.mark.parametrize("ending", ["_total", "_sum", "_count", "_bucket", "_created", "_info"])
def test_an_ending_that_prometheus_gives_is_refused_and_the_name_without_it_is_said(ending: str) -> None:
    with pytest.raises(ValueError, match="use 'orders'"):
        context().register_counter("orders" + ending)


def test_a_name_is_given_once_whatever_the_kind() -> None:
    task = context()
    task.register_counter("orders")
    task.register_timer("wait")
    for register in (task.register_gauge, task.register_histogram, task.register_counter):
        with pytest.raises(ValueError, match="already has a metric 'orders'"):
            register("orders")
    with pytest.raises(ValueError, match="already has a metric 'wait_seconds'"):
        task.register_gauge("wait_seconds")


def test_a_task_has_a_hundred_metrics_at_most() -> None:
    task = context()
    task.register_own("transactions_committed_txid", "gauge", "not counted", lambda: 0)
    for number in range(metrics.MAX_METRICS):
        task.register_gauge(f"m{number}")
    with pytest.raises(ValueError, match="has 100 metrics already, the maximum; 'one_more' cannot be registered"):
        task.register_counter("one_more")


def test_a_new_copy_of_a_component_registers_anew() -> None:
    task = context()
    task.register_counter("orders").add()
    assert task.renewed().register_counter("orders").value == 0


@pytest.mark.parametrize("amount", [-1, math.nan])
def test_a_counter_only_grows(amount: float) -> None:
    counter = context().register_counter("orders")
    counter.add(2)
    with pytest.raises(ValueError, match="a counter cannot decrease"):
        counter.add(amount)
    assert counter.value == 2


@pytest.mark.parametrize("bounds", [[], [2, 1], [1, 1], [math.inf], [math.nan], list(range(51))])
def test_bounds_ascend_and_are_finite_and_not_many(bounds: list[float]) -> None:
    with pytest.raises(ValueError, match="histogram"):
        context().register_histogram("sizes", bounds=bounds)


def test_a_value_counts_in_the_first_bucket_that_it_does_not_exceed() -> None:
    histogram = context().register_histogram("sizes", bounds=[1, 10])
    for value in (0.5, 1, 1.5, 10, 11):
        histogram.observe(value)
    assert histogram.snapshot() == metrics.Snapshot((1.0, 10.0), [2, 2, 1], 24.0)


def test_a_timer_measures_a_block_though_it_raises() -> None:
    task = context()
    now_s = iter([1.0, 1.5, 3.0, 3.25])
    task.clock = lambda: next(now_s)
    timer = task.register_timer("call", bounds=[0.3])
    with timer.time():
        pass
    with pytest.raises(KeyError), timer.time():
        raise KeyError
    assert timer.snapshot() == metrics.Snapshot((0.3,), [1, 1], 0.75)


class Orders(BasicBolt):
    """Counts in every way."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.orders = context.register_counter("orders", "Orders taken.")
        self.stock = context.register_gauge("stock")
        self.sizes = context.register_histogram("sizes", bounds=[10, 100])
        self.wait = context.register_timer("wait")
        context.register_metric("twice", lambda: 2 * self.orders.value)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        with self.wait.time():
            self.orders.add()
            self.stock.set(tup[0])
            self.sizes.observe(tup[0])


class Clashing(BasicBolt):
    """Gives a name of the other bolt to another kind."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        context.register_gauge("orders").set(77)
        context.register_gauge("stock").set(5)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


def lines(cluster: LocalCluster) -> list[str]:
    return [line for line in cluster.metrics("t").splitlines() if "tupletree_user_" in line]


def test_each_kind_is_shown_under_its_own_name_with_topology_component_and_task() -> None:
    spout = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("bolt", Orders()).shuffle_grouping("spout")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        for value in (5, 50, 500):
            spout.feed([value], value)
        cluster.wait_until(lambda: len(spout.acked) == 3)
        shown = lines(cluster)
    labels = 'component="bolt",task="1",topology="t"'
    assert "# HELP tupletree_user_orders_total Orders taken." in shown
    assert "# TYPE tupletree_user_orders_total counter" in shown
    assert f"tupletree_user_orders_total{{{labels}}} 3.0" in shown
    assert f"tupletree_user_stock{{{labels}}} 500.0" in shown
    assert f"tupletree_user_twice{{{labels}}} 6.0" in shown
    assert "# TYPE tupletree_user_sizes histogram" in shown
    sizes = [line for line in shown if line.startswith("tupletree_user_sizes")]
    assert [line.rpartition(" ")[2] for line in sizes] == ["1.0", "2.0", "3.0", "3.0", "555.0"]
    assert f"tupletree_user_wait_seconds_count{{{labels}}} 3.0" in shown


def test_of_one_name_for_two_kinds_one_is_shown_and_the_other_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("a", Orders()).shuffle_grouping("spout")
    builder.set_bolt("b", Clashing()).shuffle_grouping("spout")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        cluster.wait_until(lambda: cluster._find("t").engine.has_opened)
        registry = CollectorRegistry()
        add_tasks(registry, cluster._find("t").engine, "t")
        shown = [generate_latest(registry).decode() for _ in range(2)][1].splitlines()
    orders = [line for line in shown if "user_orders" in line and not line.startswith("#")]
    assert orders == ['tupletree_user_orders_total{component="a",task="1",topology="t"} 0.0']
    assert 'tupletree_user_stock{component="b",task="2",topology="t"} 5.0' in shown
    said = [record.getMessage() for record in caplog.records if "metric.broken" in record.getMessage()]
    assert len(said) == 1
    assert "component=b" in said[0]
