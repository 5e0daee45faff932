"""What is said of a KafkaTopics that cannot be."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

from tupletree.errors import UsageError
from tupletree.spark.sources.kafka import KafkaTopics
from tupletree.transactional.spouts import OpaquePartitionedTransactionalSpout, PartitionedTransactionalSpout

SERVER = "localhost:9092"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"bootstrap_servers": "localhost"}, "bootstrap_servers is 'localhost'; 'host:port', or several was expected"),
        ({"bootstrap_servers": []}, "bootstrap_servers is []; 'host:port', or several was expected"),
        ({"topics": []}, "topics is []; the name of a topic, or a list of names, was expected"),
        ({"topics": "two words"}, "topics is 'two words'; the name of a topic, or a list of names, was expected"),
        ({"topics": ["a", "a"]}, "topics is ['a', 'a']; a list that has each name once was expected"),
        ({"max_records_per_batch": 0}, "max_records_per_batch is 0; a number of at least 1 was expected"),
        ({"opaque": "yes"}, "opaque is 'yes'; True or False was expected"),
        (
            {"start": "now"},
            "start is 'now'; 'earliest', 'latest', a datetime or offsets such as {'orders/0': 5000} was expected",
        ),
        ({"timeout_s": 0}, "timeout_s is 0; a number of seconds, more than 0, was expected"),
        ({"client_config": "x=1"}, "client_config is 'x=1'; a dict was expected"),
        (
            {"client_config": {"enable.auto.commit": True}},
            "client_config has 'enable.auto.commit', which the connector sets itself",
        ),
        (
            {"client_config": {"error_cb": print}},
            f"client_config has 'error_cb': {print!r}; a string, a number or a bool was expected, as it is copied to "
            f"other processes",
        ),
        ({"client_config": {"gruop.id": "x"}}, 'client_config: No such configuration property: "gruop.id"'),
    ],
)
def test_a_mistake_gets_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        KafkaTopics(**{"bootstrap_servers": SERVER, "topics": "words", **arguments})
    assert str(caught.value) == f"Kafka: {sentence}"


def test_opaque_says_which_spout_it_is() -> None:
    assert isinstance(KafkaTopics(SERVER, "words").spout(), PartitionedTransactionalSpout)
    assert isinstance(KafkaTopics(SERVER, "words", opaque=True).spout(), OpaquePartitionedTransactionalSpout)
    assert KafkaTopics(SERVER, "words", opaque=True).is_opaque


def test_it_pickles_with_all_it_was_given() -> None:
    source = KafkaTopics(["a:1", "b:2"], ["x", "y"], 7, client_config={"client.id": "me"}, timeout_s=3)
    copied = pickle.loads(pickle.dumps(source))
    assert vars(copied.log) == vars(source.log)
    assert {**vars(copied), "log": None} == {**vars(source), "log": None}
    assert repr(source) == "<KafkaTopics x, y of a:1,b:2>"


def test_without_the_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    source = KafkaTopics(SERVER, "words")  # where a topology is submitted, the client may be missing
    with pytest.raises(UsageError, match=r"pip install 'tupletree\[kafka\]'"):
        list(source.read(["words/0", 0, 1]))
