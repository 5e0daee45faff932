"""Kafka: topics as a log, with spouts, and as a sink.

Transactional topologies read Kafka with ``tupletree.transactional.kafka``, pipelines with ``tupletree.spark``.
"""

from __future__ import annotations

from tupletree.connectors.kafka.log import KafkaLog
from tupletree.connectors.kafka.spout import KafkaSpout
from tupletree.connectors.kafka.topic import KafkaBolt
from tupletree.connectors.kafka.transactions import KafkaSink

__all__ = ["KafkaBolt", "KafkaLog", "KafkaSink", "KafkaSpout"]
