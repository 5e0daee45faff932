"""Progress in a LocalCluster: it lives as long as the cluster, in memory, unless an ensemble is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from local_components import Shared

from tupletree import Spout, TopologyBuilder
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.nodes import StateStore
from tupletree._stores.zookeeper_nodes import ZooKeeperStore, open_store
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.errors import UsageError
from tupletree.testing import LocalCluster
from tupletree.topology import Topology
from tupletree.transactional.progress import Progress


class Story(Shared):
    """What the spouts of a test saw."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[int, int]] = []  # (epoch, committed)
        self.stores: list[StateStore] = []
        self.confs: list[Mapping[str, Any]] = []


class Committing(Spout):
    """Commits one transaction and has no other wish."""

    outputs = ["word"]

    def __init__(self, story: Story) -> None:
        self.story = story

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        store = open_store(conf)
        progress = Progress.take_over(store, "count", context.topology_id)
        self.story.begun.append((progress.epoch, progress.committed))
        self.story.stores.append(store)
        self.story.confs.append(conf)
        progress.record(progress.committed + 1)
        store.close()

    def next_tuple(self) -> None:
        pass


def topology(story: Story) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("commit", Committing(story))
    return builder.create_topology()


def run(cluster: LocalCluster, story: Story, name: str = "count", **conf: Any) -> None:
    before = len(story.begun)
    cluster.submit(name, topology(story), {key.replace("_", "."): value for key, value in conf.items()})
    cluster.wait_until(lambda: len(story.begun) > before)
    cluster.kill(name)


def test_a_topology_that_is_submitted_again_goes_on_where_it_was() -> None:
    story = Story()
    with LocalCluster() as cluster:
        run(cluster, story)
        run(cluster, story, name="under-another-name")
        run(cluster, story, transactional_zookeeper_root="/elsewhere", transactional_zookeeper_port=1)
    assert story.begun == [(1, 0), (2, 1), (3, 2)]
    assert isinstance(story.stores[0], MemoryStore)


def test_another_cluster_begins_anew_and_none_is_left_when_it_is_closed() -> None:
    story = Story()
    with LocalCluster() as one, LocalCluster() as other:
        run(one, story)
        run(other, story)
        run(one, story)
    assert story.begun == [(1, 0), (1, 0), (2, 1)]
    for conf in story.confs:
        with pytest.raises(UsageError, match="does not run in a LocalCluster"):
            open_store(conf)


def test_an_ensemble_that_is_named_is_used(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> None:
    story, server = Story(), zookeeper.connect_string
    for _ in range(2):
        with LocalCluster() as cluster:
            run(cluster, story, transactional_zookeeper_servers=[server], transactional_zookeeper_root=zookeeper_root)
    assert story.begun == [(1, 0), (2, 1)]
    assert isinstance(story.stores[0], ZooKeeperStore)
