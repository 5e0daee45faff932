"""kill -9 of a worker, an acker and the queue's server while messages are processed: none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import killed_topology
import pytest
from every_place import PLACES
from killed_topology import appending, done
from queue_places import QueuePlace

from tests.variants import at_night_but
from tupletree.connectors.formats import Text
from tupletree.testing import DevCluster, wait_until

EACH_CHANGE = ("rabbitmq-classic",)
"""The queues that make test-long kills; the others are killed at night."""
CONF = {"topology.workers": 2, "topology.max.spout.pending": 500}


@pytest.fixture
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2, ackers=2) as running:
        yield running


@pytest.mark.long
@pytest.mark.parametrize(
    "place",
    at_night_but(EACH_CHANGE, sorted(PLACES)),
    indirect=True,
)
def test_no_message_is_lost_with_a_worker_an_acker_or_the_server(
    cluster: DevCluster, place: QueuePlace, tmp_path: Path
) -> None:
    count = place.many
    place.put([b"%d" % number for number in range(count)])
    spout = place.spout(Text())
    cluster.client.submit(place.name, appending(spout, tmp_path), CONF, code=[killed_topology.__file__])

    def has_done(share: float) -> bool:
        return len(done(tmp_path)) > share * count

    wait_until(lambda: has_done(0.1), 60, what="it gets on")
    cluster.kill("worker", 0)
    wait_until(lambda: has_done(0.25), 60, what="it goes on without a worker")
    cluster.kill("acker", 0)
    wait_until(lambda: has_done(0.4), 60, what="it goes on without an acker")
    place.server.stop()
    place.server.start()
    wait_until(lambda: len(done(tmp_path)) == count, 120, what="all are processed")
    wait_until(lambda: place.unacknowledged() == 0, 60, what="all are acknowledged")
    cluster.client.kill(place.name, wait_secs=0)
    wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 30, what="its workers end")
