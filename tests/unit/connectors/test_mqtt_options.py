"""Wrong options of MQTT's spout and bolt are refused when the topology is built."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tupletree.connectors.formats import FormatError, Text
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.mqtt import MqttBolt, MqttSpout
from tupletree.connectors.mqtt_connection import Broker, filter_error, topic_error
from tupletree.errors import UsageError
from tupletree.testing import make_tuple


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"host": "mqtt://me:secret@broker"},
            "host is not valid; HOST or HOST:PORT, with a port from 1 to 65535,",
        ),
        ({"host": "me:secret@broker"}, "host is not valid; HOST or HOST:PORT"),
        ({"host": ""}, "host is ''; HOST or HOST:PORT"),
        ({"host": "broker:70000"}, "host is 'broker:70000'; HOST or HOST:PORT, with a port from 1"),
        ({"password": "secret"}, "a password needs a username"),
        ({"tls": {"ca": "x.pem"}}, "tls has no option 'ca'; it has ca_certs, certfile, keyfile"),
        ({"tls": {"keyfile": "x.pem"}}, "tls has a keyfile without a certfile"),
        ({"topic": "a/#/b"}, "'a/#/b': + stands alone in a level, and # alone in the last"),
        ({"topic": ""}, "a topic has from 1 to 65535 bytes, and no NUL"),
        ({"topic": "$share/g/a"}, "a shared subscription is set by group, not by the topic"),
        ({"client_id": ""}, "client_id is ''; a text that is not empty was expected"),
        ({"group": "a/b"}, "group is 'a/b'; a name without /, + and #, or None, was expected"),
        ({"group": ""}, "group is ''; a name without /, + and #"),
        ({"max_in_flight": 0}, "max_in_flight is 0; a whole number from 1 to 65535 was expected"),
        ({"max_in_flight": 65536}, "max_in_flight is 65536; a whole number from 1 to 65535"),
        ({"session_s": 0}, "session_s is 0; a whole number from 1 to 4294967295"),
    ],
)
def test_a_wrong_option_of_a_spout_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        MqttSpout(**{"host": "broker", "topic": "a", "client_id": "c", **options})
    assert sentence in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topic": "a/+"}, "'a/+' has a wildcard, + or #"),
        ({"topic": ""}, "a topic has from 1 to 65535 bytes"),
        ({"qos": 2}, "qos is 2; a whole number from 0 to 1 was expected"),
        ({"host": "mqtt://me:secret@broker"}, "MqttBolt: host is not valid; HOST"),
    ],
)
def test_a_wrong_option_of_a_bolt_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        MqttBolt(**{"host": "broker", "topic": "a", **options})
    assert sentence in str(caught.value)
    assert "secret" not in str(caught.value)


def test_topics_and_filters() -> None:
    for topic in ("a", "a/b", "/", "a//b", "é"):
        assert not topic_error(topic)
        assert not filter_error(topic)
    for topic in ("#", "+", "a/#", "+/+/b", "/+"):
        assert topic_error(topic)
        assert not filter_error(topic)
    for topic in ("", "a#", "a/b+", "#/a", "++", "a\0", "a/" * 40000, "a/\ud83d"):
        assert filter_error(topic)


def test_the_topic_of_each_tuple() -> None:
    bolt = MqttBolt("broker", lambda tup: tup["to"], Text())
    assert bolt.message(make_tuple({"to": "a/b"}), b"x") == SinkMessage(b"x", topic="a/b")
    cases = (("a/#", "has a wildcard"), ("\ud83d", "cannot be written in UTF-8"), (7, "a topic is a text, not int"))
    for wrong, sentence in cases:
        with pytest.raises(FormatError, match=sentence):
            bolt.message(make_tuple({"to": wrong}), b"x")


def test_components_travel_and_keep_their_password_to_themselves() -> None:
    broker = Broker("broker", "me", "secret", {"ca_certs": "x.pem"})
    assert pickle.loads(pickle.dumps(broker)) == broker
    assert "secret" not in repr(broker)
    assert broker.address == ("broker", 8883)
    assert pickle.loads(pickle.dumps(MqttSpout("broker:1884", "a", client_id="c"))).source.broker.address[1] == 1884
