"""Transactional topologies over topics of Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tupletree.connectors.formats import Format
from tupletree.connectors.kafka import KafkaLog
from tupletree.transactional.log_spouts import MAX_PER_BATCH, OpaqueLogSpout, TransactionalLogSpout


class TransactionalKafkaSpout(TransactionalLogSpout):
    """Emits the messages of topics in batches that are fixed forever.

        spout = TransactionalKafkaSpout("broker:9092", "orders", Json(["id", "amount"]), metadata=["offset"])
        builder = TransactionalTopologyBuilder("orders", "orders", spout, parallelism=2)

    A batch waits for the leaders of its partitions. If retention deletes messages before they were read, the topology
    stops at them and reports that. Compaction must not delete messages that can still be replayed. Progress is the
    topology's own, below its transactional id: nothing is committed to Kafka. See TransactionalLogSpout and KafkaLog.

    ``options``: the keyword arguments of KafkaLog. Raises UsageError for wrong arguments.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: str | Sequence[str],
        format: Format | None = None,
        *,
        max_per_batch: int = MAX_PER_BATCH,
        metadata: Sequence[str] = (),
        **options: Any,
    ) -> None:
        log = KafkaLog(bootstrap_servers, topics, **options)
        super().__init__(log, format, max_per_batch=max_per_batch, metadata=metadata)


class OpaqueKafkaSpout(OpaqueLogSpout):
    """Emits the messages of topics in batches that go on without a partition whose leader is away.

    Batches also go on after messages that retention deleted before they were read. Both are reported. State must
    follow the opaque rule (``OpaqueMap``). The arguments are those of TransactionalKafkaSpout.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: str | Sequence[str],
        format: Format | None = None,
        *,
        max_per_batch: int = MAX_PER_BATCH,
        metadata: Sequence[str] = (),
        **options: Any,
    ) -> None:
        log = KafkaLog(bootstrap_servers, topics, **options)
        super().__init__(log, format, max_per_batch=max_per_batch, metadata=metadata)
