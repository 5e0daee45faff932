"""Transactional topologies: every batch of tuples takes effect exactly once.

    spout = MemoryTransactionalSpout({0: [["apple"], …]}, ["word"], 100)
    builder = TransactionalTopologyBuilder("global-count", "spout", spout, parallelism=3)
    builder.set_bolt("partial-count", BatchCount(), parallelism=5).shuffle_grouping("spout")
    builder.set_committer_bolt("sum", UpdateGlobalCount()).global_grouping("partial-count")
    topology = builder.create_topology()

docs/guides/transactions.md explains the model and the requirements on a spout and a committer.
"""

from __future__ import annotations

from tupletree.attempt import TransactionAttempt
from tupletree.errors import FailedException, ReportedFailedException, StaleAttemptError
from tupletree.transactional.bolts import BatchBolt, BatchCollector, Committer, GroupCommitter
from tupletree.transactional.builder import TransactionalTopologyBuilder
from tupletree.transactional.databases import (
    Database,
    MemoryDatabase,
    PostgresDatabase,
    RedisDatabase,
    SqliteDatabase,
)
from tupletree.transactional.files import FilePartitionSpout
from tupletree.transactional.maps import OpaqueMap, TransactionalMap
from tupletree.transactional.memory import MemoryTransactionalSpout, OpaqueMemoryTransactionalSpout
from tupletree.transactional.planned_log import PlannedLogSpout
from tupletree.transactional.sinks import SinkCommitter
from tupletree.transactional.spouts import (
    CommittingEmitter,
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
    TransactionalSpout,
    TransactionCoordinator,
    TransactionEmitter,
)

__all__ = [
    "BatchBolt",
    "BatchCollector",
    "Committer",
    "CommittingEmitter",
    "Database",
    "FailedException",
    "FilePartitionSpout",
    "GroupCommitter",
    "MemoryDatabase",
    "MemoryTransactionalSpout",
    "OpaqueMap",
    "OpaqueMemoryTransactionalSpout",
    "OpaquePartitionEmitter",
    "OpaquePartitionedTransactionalSpout",
    "PartitionCoordinator",
    "PartitionEmitter",
    "PartitionedTransactionalSpout",
    "PlannedLogSpout",
    "PostgresDatabase",
    "RedisDatabase",
    "ReportedFailedException",
    "SinkCommitter",
    "SqliteDatabase",
    "StaleAttemptError",
    "TransactionAttempt",
    "TransactionCoordinator",
    "TransactionEmitter",
    "TransactionalMap",
    "TransactionalSpout",
    "TransactionalTopologyBuilder",
]
