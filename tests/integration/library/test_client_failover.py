"""A client follows the leadership from nimbus to nimbus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tupletree import NimbusClient
from tupletree.errors import UnavailableError
from tupletree.testing import DevCluster

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    conf = {"zookeeper.session.timeout": 4000}  # how long a killed leader's claim lasts
    with DevCluster(supervisors=0, ackers=0, nimbuses=2, conf=conf) as running:
        yield running


def test_a_client_that_knows_one_standby_finds_the_leader(cluster: DevCluster) -> None:
    for seed in cluster.client.seeds:
        with NimbusClient(seed) as client:
            assert client.leader() == cluster.client.leader()
            assert client.list() == ()


def test_a_call_made_after_the_leader_was_killed_reaches_the_next(cluster: DevCluster) -> None:
    client = cluster.client
    before = client.leader()
    epoch = client.cluster().epoch
    index = client.seeds.index(before)
    cluster.kill("nimbus", index)
    assert client.list() == ()
    assert client.leader() != before
    assert client.cluster().epoch > epoch
    with NimbusClient(before) as alone, pytest.raises(UnavailableError, match="connection refused"):
        alone.list()
    cluster.restart("nimbus", index)
    with NimbusClient(before) as alone:
        assert alone.leader() == client.leader()


@pytest.mark.long
def test_a_call_gives_up_when_nobody_leads_for_long(cluster: DevCluster) -> None:
    index = cluster.client.seeds.index(cluster.client.leader())
    standby = next(seed for seed in cluster.client.seeds if seed != cluster.client.leader())
    cluster.kill("zookeeper")  # without it the standby cannot take over
    cluster.kill("nimbus", index)
    try:
        with (
            NimbusClient(standby, leader_timeout_s=0.5) as impatient,
            pytest.raises(UnavailableError, match="no nimbus leads; see 'tupletree health'"),
        ):
            impatient.list()
    finally:
        cluster.restart("zookeeper")
        cluster.restart("nimbus", index)
    assert cluster.client.list() == ()
