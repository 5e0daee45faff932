"""KafkaSpout: topics as the source of a topology, at least once, or exactly once with aligned checkpoints."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from tupletree.connectors.formats import Format
from tupletree.connectors.kafka.log import KafkaLog
from tupletree.connectors.log_spout import LogSpout


class KafkaSpout(LogSpout):
    """Emits the messages of topics, and remembers for each partition up to where all are processed.

        spout = KafkaSpout("broker:9092", ["orders"], Json(["id", "amount"]), group="billing", metadata=["key"])
        builder.set_spout("orders", spout, parallelism=4)

    With a ``group``, the tasks are members of a consumer group: its members share the partitions, and processed
    positions are committed, which Kafka's own tools show as the lag of the group. Without one, each task reads a fixed
    share, and positions are kept in ZooKeeper. In a topology with aligned checkpoints positions are in the checkpoint,
    shares are fixed, and commits to the group are for others to see.

    ``metadata``: "key", "topic", "partition", "offset", "timestamp" (milliseconds), "headers", added to each row.
    ``start``, ``client_config``, ``static_members``: see KafkaLog; ``log_id``, ``max_ahead``, guarantees, retries and
    dead letters: see LogSpout. Raises UsageError for wrong arguments.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: str | Sequence[str],
        format: Format | None = None,
        *,
        group: str | None = None,
        metadata: Sequence[str] = (),
        start: str | datetime.datetime | Mapping[str, int] = "earliest",
        static_members: bool = False,
        client_config: Mapping[str, Any] | None = None,
        log_id: str | None = None,
        max_ahead: int = 1_000_000,
    ) -> None:
        log = KafkaLog(
            bootstrap_servers,
            topics,
            group=group,
            static_members=static_members,
            start=start,
            client_config=client_config,
        )
        log.has_metadata = bool(metadata)
        log.waits_for_brokers = True
        super().__init__(log, format, metadata=metadata, log_id=log_id, max_ahead=max_ahead)
