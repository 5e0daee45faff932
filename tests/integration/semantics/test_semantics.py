"""What Tupletree promises about tuple trees, each promise by name: anchoring, acking, failing.

Every test runs a whole topology in a LocalCluster: the real executors, collectors and ledgers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from local_components import Do, DoBasic, Keep, Log
from scene import Holding, Scene, anchoring, order_below

from tupletree import TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster


def test_single_anchoring_keeps_the_tree_open_until_the_child_is_acked(cluster: LocalCluster) -> None:
    """The holder is the second bolt of the chain: the first has acked, the tree is still pending."""
    scene = Scene(cluster)
    feeder = FeederSpout(["n"])
    scene.builder = builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_spout("orders", scene.orders)

    def pass_on(tup: Any, collector: Any) -> None:
        collector.emit([tup[0] + 1], anchors=tup)
        collector.ack(tup)

    builder.set_bolt("first", Do(pass_on, ["n"])).shuffle_grouping("spout")
    builder.set_bolt("holder", Holding(scene.held)).shuffle_grouping("first").global_grouping("orders")
    scene.start()
    feeder.feed([1], "m")
    cluster.wait_quiet()
    assert (feeder.acked, feeder.failed) == ([], [])
    [child] = scene.held
    assert child.values == [2]
    scene.order(lambda held, collector: collector.ack(held[0]))
    assert (feeder.acked, feeder.failed) == (["m"], [])


def test_a_leaf_that_is_acked_ends_the_tree(scene: Scene) -> None:
    scene.start().feed([1], "m")
    assert scene.outcome == ([], [])
    scene.order(lambda held, collector: collector.ack(held[0]))
    assert scene.outcome == (["m"], [])


def test_multi_anchoring_joins_the_new_tuple_to_every_tree(cluster: LocalCluster) -> None:
    scene, below = anchoring(cluster)
    scene.feed([1], "a")
    scene.feed([2], "b")

    def join(held: Log, collector: Any) -> None:
        collector.emit([3], anchors=[held[0], held[1]])
        collector.ack(held[0])
        collector.ack(held[1])

    scene.order(join)
    assert scene.outcome == ([], [])
    assert len(below[0].message_id.anchors) == 2
    order_below(scene, lambda held, collector: collector.ack(held[0]))
    assert sorted(scene.outcome[0]) == ["a", "b"]


def test_multi_anchoring_fails_every_tree(cluster: LocalCluster) -> None:
    scene, _ = anchoring(cluster)
    scene.feed([1], "a")
    scene.feed([2], "b")
    scene.feed([3], "c")
    scene.order(lambda held, collector: collector.emit([3], anchors=held[:2]))
    order_below(scene, lambda held, collector: collector.fail(held[0]))
    acked, failed = scene.outcome
    assert (acked, sorted(failed)) == ([], ["a", "b"])


def test_trees_that_share_a_tuple_end_independently(cluster: LocalCluster) -> None:
    scene, _ = anchoring(cluster)
    scene.feed([1], "a")
    scene.feed([2], "b")

    def join_and_ack_a_only(held: Log, collector: Any) -> None:
        collector.emit([3], anchors=[held[0], held[1]])
        collector.ack(held[0])

    scene.order(join_and_ack_a_only)
    order_below(scene, lambda held, collector: collector.ack(held[0]))
    assert scene.outcome == (["a"], [])
    scene.order(lambda held, collector: collector.ack(held[1]))
    assert scene.outcome == (["a", "b"], [])


def test_self_anchoring_the_same_tuple_given_twice_as_anchor(cluster: LocalCluster) -> None:
    scene, below = anchoring(cluster)
    scene.feed([1], "a")

    def emit_twice_anchored(held: Log, collector: Any) -> None:
        collector.emit([2], anchors=[held[0], held[0]])
        collector.ack(held[0])

    scene.order(emit_twice_anchored)
    assert scene.outcome == ([], [])
    assert list(below[0].message_id.anchors) == list(scene.held[0].message_id.anchors)
    order_below(scene, lambda held, collector: collector.ack(held[0]))
    assert scene.outcome == (["a"], [])


def test_a_tree_with_two_branches_ends_when_both_have_ended(cluster: LocalCluster) -> None:
    scene, below = anchoring(cluster)
    scene.feed([1], "a")

    def split(held: Log, collector: Any) -> None:
        collector.emit(["left"], anchors=held[0])
        collector.emit(["right"], anchors=held[0])
        collector.ack(held[0])

    scene.order(split)
    assert [tup.values for tup in below] == [["left"], ["right"]]
    order_below(scene, lambda held, collector: collector.ack(held[0]))
    assert scene.outcome == ([], [])
    order_below(scene, lambda held, collector: collector.ack(held[1]))
    assert scene.outcome == (["a"], [])


def diamond(cluster: LocalCluster, joined: Callable[[list[Any], Any], None]) -> tuple[FeederSpout, Log]:
    """spout -> split -> left, right -> join (emits one tuple anchored to both its inputs) -> sink."""
    feeder, log = FeederSpout(["n"]), Log()
    waiting: dict[Any, list[Any]] = {}

    def split(tup: Any, collector: Any) -> None:
        collector.emit([tup[0]], anchors=tup, stream="left")
        collector.emit([tup[0]], anchors=tup, stream="right")
        collector.ack(tup)

    def join(tup: Any, collector: Any) -> None:
        pair = waiting.setdefault(tup[0], [])
        pair.append(tup)
        if len(pair) == 2:
            joined(pair, collector)

    relay = DoBasic(lambda tup, collector: collector.emit([tup[0]]), ["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("split", Do(split, {"left": ["n"], "right": ["n"]})).shuffle_grouping("spout")
    builder.set_bolt("left", relay, 2).shuffle_grouping("split", "left")
    builder.set_bolt("right", relay, 2).shuffle_grouping("split", "right")
    join_bolt = builder.set_bolt("join", Do(join, ["n"]), 2)
    join_bolt.fields_grouping("left", ["n"]).fields_grouping("right", ["n"])
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("join")
    cluster.submit("t", builder.create_topology())
    return feeder, log


def test_dag_diamond_with_shared_roots(cluster: LocalCluster) -> None:
    def joined(pair: list[Any], collector: Any) -> None:
        collector.emit([pair[0][0]], anchors=pair)
        for tup in pair:
            collector.ack(tup)

    feeder, log = diamond(cluster, joined)
    for number in range(100):
        feeder.feed([number], number)
    cluster.wait_quiet()
    assert sorted(values[0] for _, values in log) == list(range(100))
    assert (sorted(feeder.acked), feeder.failed) == (list(range(100)), [])


def test_dag_diamond_of_which_one_side_is_not_acked_stays_pending(cluster: LocalCluster) -> None:
    def joined(pair: list[Any], collector: Any) -> None:
        collector.emit([pair[0][0]], anchors=pair)
        collector.ack(pair[0])

    feeder, log = diamond(cluster, joined)
    for number in range(20):
        feeder.feed([number], number)
    cluster.wait_quiet()
    assert len(log) == 20
    assert (feeder.acked, feeder.failed) == ([], [])
    cluster.advance(60)
    cluster.wait_quiet()
    assert (feeder.acked, sorted(feeder.failed)) == ([], list(range(20)))


def test_unanchored_tuples_are_not_part_of_the_tree(cluster: LocalCluster) -> None:
    scene, below = anchoring(cluster)
    scene.feed([1], "a")

    def emit_unanchored(held: Log, collector: Any) -> None:
        collector.emit([2])
        collector.ack(held[0])

    scene.order(emit_unanchored)
    assert scene.outcome == (["a"], [])
    assert len(below) == 1
    assert below[0].message_id.anchors == {}
    order_below(scene, lambda held, collector: collector.fail(held[0]))
    assert scene.outcome == (["a"], [])


def test_untracked_tuples_carry_no_tree_and_are_reported_to_nobody(scene: Scene) -> None:
    tup = scene.start().feed([1])
    assert tup.message_id.anchors == {}
    scene.order(lambda held, collector: collector.fail(held[0]))
    scene.cluster.advance(100)
    assert scene.outcome == ([], [])


def test_all_grouping_needs_every_copy_acked(cluster: LocalCluster) -> None:
    """Four copies, of which the task with the highest id waits for an order before it acks."""
    scene = Scene(cluster)
    builder = TopologyBuilder()
    builder.set_spout("spout", scene.feeder)
    builder.set_spout("orders", scene.orders)
    log = Log()
    builder.set_bolt("copies", Keep(log), 3).all_grouping("spout")
    builder.set_bolt("holder", Holding(scene.held)).all_grouping("spout").global_grouping("orders")
    scene.builder = builder
    scene.start().feed([7], "a")
    assert [values for _, values in log] == [[7]] * 3
    assert len({task for task, _ in log}) == 3
    assert scene.outcome == ([], [])
    scene.order(lambda held, collector: collector.ack(held[0]))
    assert scene.outcome == (["a"], [])


def test_a_tuple_that_nobody_consumes_is_acked_at_once(cluster: LocalCluster) -> None:
    feeder = FeederSpout({"default": ["n"], "unheard": ["n"]})
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    feeder.feed([1], "a", stream="unheard")
    cluster.wait_quiet()
    assert (feeder.acked, feeder.failed) == (["a"], [])


def test_acking_twice_changes_nothing(cluster: LocalCluster) -> None:
    """In Storm a second ack cancels the first, and the tree times out. Here it is harmless, also across trees."""
    scene, _ = anchoring(cluster)
    scene.feed([1], "a")
    scene.feed([2], "b")

    def join_and_ack_all_twice(held: Log, collector: Any) -> None:
        collector.emit([3], anchors=list(held))
        for tup in [*held, *held]:
            collector.ack(tup)

    scene.order(join_and_ack_all_twice)
    scene.order(lambda held, collector: [collector.ack(tup) for tup in held])
    assert scene.outcome == ([], []), "the joined tuple is still pending"

    def ack_twice(held: Log, collector: Any) -> None:
        collector.ack(held[0])
        collector.ack(held[0])

    order_below(scene, ack_twice)
    assert sorted(scene.outcome[0]) == ["a", "b"]
    order_below(scene, ack_twice)
    cluster.advance(100)
    assert (sorted(scene.outcome[0]), scene.outcome[1]) == (["a", "b"], [])


def test_several_trees_through_many_tasks_are_each_acked_once(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["n"])
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder, 3)
    explode = DoBasic(lambda tup, collector: collector.emit_many([tup[0], part] for part in range(5)), ["n", "part"])
    builder.set_bolt("explode", explode, 3).shuffle_grouping("spout")
    log = Log()
    builder.set_bolt("sink", Keep(log), 4).fields_grouping("explode", ["part"])
    for number in range(500):
        feeder.feed([number], number)
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    assert sorted(feeder.acked) == list(range(500))
    assert sorted(tuple(values) for _, values in log) == [(n, part) for n in range(500) for part in range(5)]
