"""The client of Kafka: where it comes from, and how it is configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tupletree.errors import UsageError

FIXED = {
    "enable.auto.commit": False,  # progress is the pipeline's; Kafka keeps none of it
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # a log may end with offsets that are no records
    "auto.offset.reset": "error",  # what is gone must not be skipped
    "allow.auto.create.topics": False,  # nor a topic be made by asking for it
}
DEFAULTS = {
    "group.id": "tupletree",  # demanded, and of no consequence
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 50,  # until a broker says that a log ends here
    "log_level": 2,  # what goes wrong is raised, and need not be on stderr as well
}


def kafka() -> Any:
    """The module confluent_kafka. UsageError if it is not installed here."""
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
    """What every client of ours is made with: what was given over defaults, and what must be as it is over both."""
    return {**DEFAULTS, **given, **FIXED, "bootstrap.servers": bootstrap_servers}
