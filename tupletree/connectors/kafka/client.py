"""The Kafka client: its import, its configuration, and the arguments that all Kafka connectors have."""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tupletree._limits import shown
from tupletree.connectors.extras import imported
from tupletree.errors import UsageError

FIXED = {
    "enable.auto.commit": False,  # a position is committed when its messages are processed
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # a log can end with offsets without messages
    "auto.offset.reset": "error",  # deleted offsets must not be skipped silently
    "allow.auto.create.topics": False,  # a request must not create a topic
}
DEFAULTS = {
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "cooperative-sticky",  # a rebalance leaves most partitions where they are
    "topic.metadata.refresh.interval.ms": 30_000,  # new partitions are found so soon
    "fetch.wait.max.ms": 50,  # the maximum wait until a broker reports the end of a log
    "fetch.queue.backoff.ms": 10,  # with a full queue; in the default second, a fast reader empties it and waits
    "log_level": 2,  # errors are raised, and need not go to stderr too
}

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVER = re.compile(r"(\w+://)?[^\s,/]+:\d+")


def kafka() -> Any:
    """Return the module confluent_kafka, with its ``admin``. Raises UsageError if it is not installed here."""
    imported("confluent_kafka.admin", "kafka")
    return imported("confluent_kafka", "kafka")


@contextlib.contextmanager
def connection_errors(config: Mapping[str, Any]) -> Iterator[None]:
    """Raise the errors of the client as ConnectionError. ``config``: the client's, whose brokers the message names."""
    try:
        yield
    except kafka().KafkaException as error:
        raise connection_error(config, text_of(error)) from error


def connection_error(config: Mapping[str, Any], text: str) -> ConnectionError:
    """Return the error of a connection, with the addresses of the brokers."""
    return ConnectionError(f"the brokers {config['bootstrap.servers']}: {text}")


def text_of(error: Any) -> str:
    """Return the text of a KafkaException."""
    cause = error.args[0] if error.args else error
    text: str = cause.str() if hasattr(cause, "str") else str(cause)
    return text


def consumer_config(bootstrap_servers: str, given: Mapping[str, Any], group: str | None = None) -> dict[str, Any]:
    """Return the configuration of every consumer: defaults, overridden by ``given``, overridden by fixed settings.

    The client requires a group, which has no effect until the consumer subscribes or commits.
    """
    fixed = {**FIXED, "bootstrap.servers": bootstrap_servers, **({"group.id": group} if group else {})}
    return {"group.id": "tupletree", **DEFAULTS, **given, **fixed}


def checked_servers(given: str | Sequence[str]) -> str:
    """Return the addresses of brokers, separated by commas. Raises UsageError."""
    servers = [server.strip() for server in given.split(",")] if isinstance(given, str) else given
    if not _are_names(servers) or not all(map(_SERVER.fullmatch, servers)):
        raise mistake("bootstrap_servers", given, "'host:port', or several")
    return ",".join(servers)


def checked_topics(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return names of topics. Raises UsageError."""
    topics = [given] if isinstance(given, str) else given
    if not _are_names(topics) or not all(map(TOPIC.fullmatch, topics)) or set(topics) & {".", ".."}:
        raise mistake("topics", given, "the name of a topic, or a list of names,")
    if len(set(topics)) < len(topics):
        raise mistake("topics", given, "a list that has each name once")
    return tuple(topics)


def checked_topic(given: str) -> str:
    """Return the name of one topic. Raises UsageError."""
    if not isinstance(given, str):
        raise mistake("topic", given, "the name of a topic")
    return checked_topics(given)[0]


def check_offsets(start: Mapping[str, int], topics: Sequence[str]) -> None:
    """Raise UsageError unless ``start`` has offsets of partitions of these topics."""
    for name, offset in start.items():
        topic, _, number = name.rpartition("/") if isinstance(name, str) else ("", "", "")
        if topic not in topics or not number.isdecimal() or type(offset) is not int or offset < 0:
            raise mistake("start", {name: offset}, f"the offset of a partition, such as {{'{topics[0]}/0': 5000}},")


def checked_client_config(given: Mapping[str, Any] | None, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return a user's configuration of the client. Raises UsageError, also for a key of ``fixed``."""
    if given is not None and not isinstance(given, Mapping):
        raise mistake("client_config", given, "a dict")
    for key, value in (given or {}).items():
        if key in fixed or key == "bootstrap.servers":
            raise UsageError(f"Kafka: client_config has {key!r}, which the connector sets itself")
        if not isinstance(key, str) or not isinstance(value, str | int | float):
            raise UsageError(
                f"Kafka: client_config has {key!r}: {value!r}; a string, a number or a bool was expected, as it is "
                f"copied to other processes"
            )
    return dict(given or {})


def check_with_client(client_class: str, config: Mapping[str, Any]) -> None:
    """Have the client, if it is installed here, check a configuration. No broker is needed. Raises UsageError."""
    if importlib.util.find_spec("confluent_kafka") is None:
        return
    client = kafka()
    try:
        made = getattr(client, client_class)(config)
        if client_class == "Consumer":
            made.close()
    except (client.KafkaException, TypeError, ValueError) as error:
        what = text_of(error) if isinstance(error, client.KafkaException) else error
        raise UsageError(f"Kafka: client_config: {what}") from None


def mistake(name: str, value: object, expected: str) -> UsageError:
    """Return the error for a wrong argument."""
    return UsageError(f"Kafka: {name} is {shown(value)}; {expected} was expected")


def _are_names(given: Any) -> bool:
    return isinstance(given, list | tuple) and bool(given) and all(isinstance(name, str) for name in given)
