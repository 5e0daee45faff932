"""The Kafka client: its import and its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tupletree.errors import UsageError

FIXED = {
    "enable.auto.commit": False,  # progress is stored with the pipeline, not in Kafka
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # a log can end with offsets without records
    "auto.offset.reset": "error",  # deleted offsets must not be skipped
    "allow.auto.create.topics": False,  # a request must not create a topic
}
DEFAULTS = {
    "group.id": "tupletree",  # required, but without effect
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 50,  # the maximum wait until a broker reports the end of a log
    "log_level": 2,  # errors are raised, and need not go to stderr too
}


def kafka() -> Any:
    """Return the module confluent_kafka. UsageError if it is not installed here."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise UsageError(
            f"KafkaTopics needs the client of Kafka, which is not installed for this Python ({error}): "
            f"pip install 'tupletree[kafka]'"
        ) from None
    return confluent_kafka


def configuration(bootstrap_servers: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of every client: defaults, overridden by ``given``, overridden by fixed settings."""
    return {**DEFAULTS, **given, **FIXED, "bootstrap.servers": bootstrap_servers}
