"""Positions of logs in the store: merged, never lowered."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tupletree import config
from tupletree._stores import memory_nodes
from tupletree._stores.nodes import Put
from tupletree.component import TopologyContext
from tupletree.connectors.files import FileSpout
from tupletree.connectors.log_positions import StoredPositions
from tupletree.errors import UsageError


@pytest.fixture
def conf() -> Iterator[dict[str, Any]]:
    root = f"/test-{uuid.uuid4().hex}"
    memory_nodes.register(root)
    yield {**config.defaults(), "zookeeper.servers": [], "transactional.zookeeper.root": root}
    memory_nodes.drop(root)


def stored(
    conf: dict[str, Any], task_index: int = 0, log_id: str | None = None, component: str = "in"
) -> StoredPositions:
    context = TopologyContext(
        topology_id="orders-1-1700000000",
        component_id=component,
        task_id=task_index + 1,
        tasks={component: [1, 2, 3]},
        sources={},
        targets={},
        conf=conf,
    )
    return StoredPositions(context, log_id)


def test_what_is_saved_is_loaded_by_every_task(conf: dict[str, Any]) -> None:
    stored(conf, 0).save({"a": 10, "b": 20})
    stored(conf, 1).save({"b": 15, "c": 30})
    assert stored(conf, 2).load() == {"a": 10, "b": 20, "c": 30}
    assert stored(conf, 2, "other").load() == {} == stored(conf, 2, component="../x").load()


def test_positions_never_go_back(conf: dict[str, Any]) -> None:
    old, new = stored(conf), stored(conf)
    old.save({"a": 10})
    new.save({"a": 20, "b": 1})
    old.save({"a": 15})
    old.save({"c": 5})
    assert new.load() == {"a": 20, "b": 1, "c": 5}


def test_what_is_stored_already_costs_no_write(conf: dict[str, Any]) -> None:
    store = memory_nodes.registered(conf["transactional.zookeeper.root"])
    one = stored(conf, log_id="x")
    one.save({"a": 10})
    one.save({"a": 10})
    one.save({"a": 9})
    node = store.get("/$logs/x/0")
    assert node is not None and node.version == 0
    store.write([Put("/$logs/x/0", node.data, node.version)])
    one.save({"a": 11})
    assert stored(conf, log_id="x").load() == {"a": 11}


@pytest.mark.parametrize("log_id", ["", "a/b", ".hidden", "x" * 201, 5, "ü"])
def test_a_log_id_that_names_no_node_is_refused(log_id: Any) -> None:
    with pytest.raises(UsageError, match="FileSpout: log_id is"):
        FileSpout("/tmp", log_id=log_id)


def test_metadata_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="FileSpout: metadata names 'key'; what files has"):
        FileSpout("/tmp", metadata=["key"])


def test_a_partition_that_has_begun_anew_gets_a_lower_position(conf: dict[str, Any]) -> None:
    positions = stored(conf)
    positions.save({"a": 1000, "b": 5})
    positions.rewind("a", 0)
    positions.save({"b": 6})
    assert stored(conf).load() == {"a": 0, "b": 6}
    positions.save({"a": 7})
    assert stored(conf).load() == {"a": 7, "b": 6}


def test_a_partition_that_has_begun_anew_begins_anew_also_where_another_task_had_it(conf: dict[str, Any]) -> None:
    former = stored(conf, 1)
    former.save({"a": 1000, "c": 3})
    positions = stored(conf, 0)
    positions.save({"b": 5})
    positions.rewind("a", 0)
    positions.save({"a": 150})
    assert stored(conf).load() == {"a": 150, "b": 5, "c": 3}
    former.save({"c": 4})
    assert stored(conf).load() == {"a": 150, "b": 5, "c": 4}


def test_partitions_that_are_gone_can_be_forgotten(conf: dict[str, Any]) -> None:
    positions = stored(conf)
    positions.save({f"{'long name':>100}{number}": number for number in range(8000)})
    with pytest.raises(UsageError):
        positions.save({f"{'another':>100}{number}": number for number in range(4000)})
    positions.save({"new": 1}, {"new"})
    assert stored(conf).load() == {"new": 1}
