"""Messages of Kafka from topic to topic by bytewax's own source and sink. Started by ``python -m bytewax.run``."""

# bytewax is installed only in this program's environment.
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow


def flow(brokers: str, source: str, target: str, producer_config: Mapping[str, Any]) -> Dataflow:
    """Return source → sink. The source polls a thousand messages at a time: its default."""
    dataflow = Dataflow("kafka")
    messages = op.input("messages", dataflow, KafkaSource([brokers], [source]))
    written = op.map("message", messages, lambda message: KafkaSinkMessage(None, message.value))
    op.output("out", written, KafkaSink([brokers], target, dict(producer_config)))
    return dataflow
