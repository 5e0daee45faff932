"""A batch bolt that is a function from DataFrame to DataFrame, inside a transactional topology."""

from __future__ import annotations

import pytest
from local_components import Log
from local_spark import LOCAL
from pyspark.sql import functions as f

from tupletree.spark.batch_bolt import SparkBatchBolt
from tupletree.testing import LocalCluster
from tupletree.transactional import BatchBolt, Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder

PATIENCE_S = 150  # the first job of a session takes long where other tests run
CONF = {**LOCAL, "topology.message.timeout.secs": PATIENCE_S, "topology.max.spout.pending": 2}
ROWS = [[f"host-{number % 3}", number] for number in range(60)]


@pytest.fixture
def cluster(spark):
    with LocalCluster() as local:
        yield local


class Busy(SparkBatchBolt):
    outputs = ["requests", "host"]

    def process(self, batch):
        return batch.groupBy("host").agg(f.count("*").alias("requests"), f.sum("bytes").alias("bytes"))


class NamesTheAttempt(Busy):
    outputs = ["attempt", "requests", "host"]


class Typed(SparkBatchBolt):
    outputs = ["text"]
    schema = "bytes INT"

    def process(self, batch):
        types = ",".join(f"{name}:{kind}" for name, kind in batch.dtypes)
        return batch.select(f.concat(f.lit(f"{types} "), f.col("bytes")).alias("text"))


class Broken(Busy):
    def process(self, batch):
        return batch.mapInArrow(refuse, "host STRING, requests BIGINT")


class Binary(Busy):
    outputs = ["host"]

    def process(self, batch):
        return batch.select(f.expr("cast(X'FF' AS STRING)").alias("host"))


class Forgetful(Busy):
    def process(self, batch):
        return batch.select("host")


def refuse(batches):
    for batch in batches:
        raise ValueError(f"{batch.schema.names[0]} is too much")
    yield batch


class Keep(BatchBolt, Committer):
    def __init__(self, log):
        self.log, self.rows = log, []

    def execute(self, tup):
        self.rows.append(tuple(tup.select([name for name in tup.fields if name != "attempt"])))

    def finish_batch(self):
        self.log.append((self.batch_id.txid, sorted(self.rows)))


def topology(bolt, kept, parallelism=1):
    builder = TransactionalTopologyBuilder("spark", "rows", MemoryTransactionalSpout([ROWS], ["host", "bytes"], 20))
    builder.set_bolt("bolt", bolt, parallelism).fields_grouping("rows", ["host"])
    builder.set_bolt("keep", Keep(kept)).global_grouping("bolt")
    return builder.create_topology()


@pytest.mark.parametrize("bolt", [Busy(), NamesTheAttempt()])
def test_a_batch_is_a_data_frame_and_its_result_goes_on(cluster, bolt):
    kept = Log()
    cluster.submit("spark", topology(bolt, kept, 2), CONF)
    cluster.wait_until(lambda: len(kept) == 3, PATIENCE_S)
    batches = [ROWS[start : start + 20] for start in (0, 20, 40)]
    expected = [sorted((sum(h == host for h, _ in batch), host) for host in {h for h, _ in batch}) for batch in batches]
    assert kept == list(enumerate(expected, 1))


def test_a_schema_chooses_columns_and_types(cluster):
    kept = Log()
    cluster.submit("spark", topology(Typed(), kept), CONF)
    cluster.wait_until(lambda: len(kept) == 3, PATIENCE_S)
    assert kept[0] == (1, sorted((f"bytes:int {number}",) for number in range(20)))


@pytest.mark.parametrize(
    ("bolt", "fault"),
    [
        (Broken(), "component 'bolt', transaction 1 (attempt 1.0): ValueError: host is too much"),
        (Binary(), "component 'bolt', transaction 1 (attempt 1.0): UnicodeDecodeError: 'utf-8' codec can't decode"),
        (Forgetful(), "process returned the columns host; outputs declares requests, host"),
    ],
)
def test_what_goes_wrong_fails_the_batch_and_is_reported_in_a_sentence(cluster, bolt, fault):
    kept = Log()
    cluster.submit("spark", topology(bolt, kept), CONF)
    cluster.wait_until(lambda: cluster.errors("spark"), PATIENCE_S)
    [_, error] = cluster.errors("spark")[0]
    assert fault in str(error)
    assert kept == []
