"""MQTT beyond the contract of queues: shared subscriptions, refused messages, logins, QoS 0, a bolt that was idle."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from operator import itemgetter

import pytest
from mqtt_place import MqttPlace, MqttServer
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from queue_components import History, new_history, watched
from tcp_proxy import Proxy

from tupletree import TopologyBuilder
from tupletree.connectors.formats import Text
from tupletree.connectors.mqtt import MqttBolt, MqttSpout
from tupletree.errors import UsageError
from tupletree.testing import FeederSpout, LocalCluster, wait_until
from tupletree.testing.simulation.external import current


class StrictServer(MqttServer):
    """A broker that takes small packets, on topics below ``open``, from clients that log in."""

    def options(self) -> list[str]:
        (self.directory / "topics").write_text("topic readwrite open/#\n")
        return [f"acl_file {self.directory}/topics", "max_packet_size 1000"]


class LockedServer(MqttServer):
    """A broker that knows no user."""

    def options(self) -> list[str]:
        return ["allow_anonymous false"]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[MqttServer]:
    if reason := MqttServer.missing():
        pytest.skip(reason)
    server: MqttServer = getattr(request, "param", MqttServer)()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def place(server: MqttServer) -> MqttPlace:
    return MqttPlace(server, f"q{uuid.uuid4().hex[:8]}")


def test_tasks_of_a_group_share_the_messages(place: MqttPlace) -> None:
    texts = [f"message {number}" for number in range(200)]
    place.begin(1)
    place.put([text.encode() for text in texts])
    assert [place.server.queued(f"{place.name}-{task}") for task in (0, 1)] == [100, 100]
    stand_in = new_history()
    history: History = current(stand_in)
    with LocalCluster() as cluster:
        cluster.submit("watched", watched(place.spout(Text()), stand_in, parallelism=2))
        cluster.wait_until(lambda: set(texts) <= set(history.executed))
        cluster.wait_until(lambda: not any(place.server.queued(f"{place.name}-{task}") for task in (0, 1)))
    assert set(history.executed.values()) == {1}


def test_several_tasks_without_a_group_are_refused(server: MqttServer) -> None:
    spout = MqttSpout(f"127.0.0.1:{server.port}", "a", Text(), client_id="a")
    with pytest.raises(UsageError, match="several tasks without a group would each emit all messages: set group"):
        spout.source.open(10, task_index=1)


def test_messages_of_qos_0_need_no_acknowledgement(place: MqttPlace) -> None:
    stand_in = new_history()
    history: History = current(stand_in)
    with LocalCluster() as cluster, place.client() as client:
        cluster.submit("watched", watched(place.spout(Text()), stand_in))
        place.put([b"first"])
        cluster.wait_until(lambda: history.executed["first"] == 1)
        client.publish(place.name, b"careless", qos=0)
        cluster.wait_until(lambda: history.executed["careless"] == 1)
        place.put([b"last"])
        cluster.wait_until(lambda: history.executed["last"] == 1)
        cluster.wait_until(lambda: place.unacknowledged() == 0)
        assert not cluster.errors("watched")


@pytest.mark.parametrize("server", [StrictServer], indirect=True)
def test_a_refused_message_fails_alone(server: MqttServer) -> None:
    feeder = FeederSpout(["topic", "text"])
    bolt = MqttBolt(f"127.0.0.1:{server.port}", itemgetter("topic"), Text())
    good = [f"good {number}" for number in range(50)]
    with LocalCluster() as cluster:
        builder = TopologyBuilder()
        builder.set_bolt("put", bolt).shuffle_grouping(builder.set_spout("texts", feeder))
        cluster.submit("puts", builder.create_topology())
        for name in good[:25]:
            feeder.feed(["open/a", "x"], name)
        feeder.feed(["closed/a", "x"], "closed")
        feeder.feed(["open/a", "x" * 2000], "large")
        feeder.feed(["open/#", "x"], "wildcard")
        for name in good[25:]:
            feeder.feed(["open/b", "x"], name)
        cluster.wait_until(lambda: len(feeder.acked) + len(feeder.failed) == 53)
        assert sorted(feeder.acked) == sorted(good)
        assert sorted(feeder.failed) == ["closed", "large", "wildcard"]
        reported = [str(error) for _, error in cluster.errors("puts")]  # one for each batch with a refusal
        assert reported
        assert all("refuses the message" in text or "takes no message of" in text for text in reported), reported


@pytest.mark.parametrize("server", [LockedServer], indirect=True)
def test_a_refused_login_is_reported_without_the_password(server: MqttServer) -> None:
    stand_in = new_history()
    spout = MqttSpout(f"127.0.0.1:{server.port}", "a", Text(), client_id="a", username="me", password="secret")
    with LocalCluster() as cluster:
        cluster.submit("watched", watched(spout, stand_in))
        cluster.wait_until(lambda: cluster.errors("watched"))
        errors = [str(error) for _, error in cluster.errors("watched")]
    assert "the broker refuses the connection: Not authorized" in errors[0]
    assert not any("secret" in error for error in errors)


def test_a_connection_lost_between_batches_fails_no_tuple(place: MqttPlace) -> None:
    feeder = FeederSpout(["text"])
    with LocalCluster() as cluster, Proxy(place.server.port) as proxy:
        place.port = proxy.port
        builder = TopologyBuilder()
        builder.set_bolt("put", place.bolt(Text())).shuffle_grouping(builder.set_spout("texts", feeder))
        cluster.submit("puts", builder.create_topology())
        for number in range(3):
            feeder.feed([f"message {number}"], number)
            cluster.wait_until(lambda number=number: feeder.acked == list(range(number + 1)))
            proxy.cut()
        assert feeder.failed == []
    assert place.unacknowledged() == 3


def test_a_delivery_has_headers_and_is_given_out_again_when_released(place: MqttPlace) -> None:
    source = place.spout(Text()).source
    source.open(10, 0)
    try:
        with place.client() as client:
            properties = Properties(PacketTypes.PUBLISH)
            properties.UserProperty = ("trace", "7")
            client.publish(place.name, b"x", qos=1, properties=properties)
            (first,) = wait_until(lambda: source.receive(10, 0.1))
        assert (first.data, first.handle, first.deliveries) == (b"x", f"{place.name} 1", 1)
        assert first.headers == {"topic": place.name, "retain": False, "properties": {"trace": "7"}}
        source.release([first.handle], 0.0)
        (again,) = source.receive(10, 0.1)
        assert (again.handle, again.data, again.deliveries) == (first.handle, b"x", 2)
        assert place.unacknowledged() == 1
        source.acknowledge([again.handle])
        wait_until(lambda: place.unacknowledged() == 0)
    finally:
        source.close()
