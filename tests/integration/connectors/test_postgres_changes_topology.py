"""Topologies on the changes of PostgreSQL: snapshot and changes in states, failures, refusals that a user sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from postgres_changes_place import ChangesPlace, ChangesServer

from tupletree import Backoff, BasicStatefulBolt, FailedException, TopologyBuilder
from tupletree.connectors.postgres_changes import PostgresChangesSpout
from tupletree.errors import TaskFailedError
from tupletree.testing import LocalCluster
from tupletree.testing.simulation.external import current, external

pytestmark = pytest.mark.skipif(bool(ChangesServer.missing()), reason=ChangesServer.missing() or "it is installed")
ALIGNED = {"topology.state.checkpoint.aligned": True, "topology.state.checkpoint.interval.ms": 100}


@pytest.fixture(scope="module")
def server() -> Iterator[ChangesServer]:
    running = ChangesServer()
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
def place(server: ChangesServer) -> Iterator[ChangesPlace]:
    place = ChangesPlace(server)
    yield place
    place.drop()


class Tally(BasicStatefulBolt):
    """Counts the changes of each key by operation, and fails one of them some times."""

    default_factory = int

    def __init__(self, failures: list[int]) -> None:
        self.failures = failures

    def execute(self, tup: Any) -> None:
        if tup["key"]["id"] == 7 and len(self.failures) < 2:
            self.failures.append(7)
            raise FailedException("not yet")
        self.state[f"{tup['operation']} {tup['key']['id']}"] += 1


def tallying(place: ChangesPlace, failures: Any) -> Any:
    builder = TopologyBuilder()
    spout = PostgresChangesSpout(place.server.url, place.name, place.name)
    spout.retry = Backoff(first_s=0.05, factor=1, max_s=0.05, max_attempts=None)
    changes = builder.set_spout("changes", spout, 2)
    builder.set_bolt("tally", Tally(failures), 2).fields_grouping(changes, "key")
    return builder.create_topology()


@pytest.mark.long
@pytest.mark.parametrize("conf", [ALIGNED, {"topology.state.checkpoint.interval.ms": 100}], ids=["aligned", "plain"])
def test_rows_and_changes_have_their_effect_on_states(place: ChangesPlace, conf: dict[str, Any]) -> None:
    place.insert(1, 100)
    failures: list[int] = external(list)
    expected = {f"snapshot {id}": 1 for id in range(1, 101)}
    with LocalCluster() as cluster:
        cluster.submit("tally", tallying(place, failures), conf)
        cluster.wait_until(lambda: cluster.state("tally", "tally") == expected, 30)
        place.execute(f"DELETE FROM {place.table} WHERE id <= 10")
        place.insert(101, 103)
        expected |= {**{f"delete {id}": 1 for id in range(1, 11)}, **{f"insert {id}": 1 for id in (101, 102, 103)}}
        cluster.wait_until(lambda: cluster.state("tally", "tally") == expected, 30)
        cluster.wait_until(lambda: place.name in (slots := place.slots()) and f"{place.name}_snapshot" not in slots, 30)
    assert len(current(failures)) >= 2


def test_what_the_server_refuses_ends_the_task_in_one_sentence(place: ChangesPlace) -> None:
    place.execute(f"DROP PUBLICATION {place.name}")
    with pytest.raises(TaskFailedError, match=f"there is no publication '{place.name}'"), LocalCluster() as cluster:
        cluster.submit("tally", tallying(place, external(list)))
        cluster.wait_until(lambda: False, 30)
