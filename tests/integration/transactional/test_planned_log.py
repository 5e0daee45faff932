"""Any log as a transactional spout whose coordinator plans ranges: each message counts once, whatever fails."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_components import Log

from tupletree.connectors.files import TextFileLog
from tupletree.connectors.formats import Json
from tupletree.errors import FailedException, UnavailableError, UsageError
from tupletree.testing import LocalCluster
from tupletree.transactional import (
    BatchBolt,
    Committer,
    PlannedLogSpout,
    SqliteDatabase,
    TransactionalMap,
    TransactionalTopologyBuilder,
)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as local:
        yield local


class Total(BatchBolt, Committer):
    """Adds up amounts by file. Every third batch fails once."""

    def __init__(self, totals: Any, failed: Any) -> None:
        self.totals = totals
        self.failed = failed
        self.amounts: Counter[str] = Counter()

    def execute(self, tup: Any) -> None:
        self.amounts[tup["file"]] += tup["amount"]

    def finish_batch(self) -> None:
        txid = self.batch_id.txid
        if txid % 3 == 0 and txid not in self.failed:
            self.failed.append(txid)
            raise FailedException("not yet")
        self.totals.add(self.batch_id, self.amounts)


def write(path: Path, *amounts: int) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps({"amount": amount}) + "\n" for amount in amounts)


def test_each_message_counts_once_through_failures_growth_and_a_restart(cluster: LocalCluster, tmp_path: Path) -> None:
    logs, failed = tmp_path / "logs", Log()
    logs.mkdir()
    for name in "abc":
        write(logs / name, *range(40))
    database = SqliteDatabase(tmp_path / "totals.db")

    def submit() -> None:
        spout = PlannedLogSpout(TextFileLog(logs), Json(["amount"]), limit=100, metadata=["file"])
        builder = TransactionalTopologyBuilder("totals", "amounts", spout, 2)
        builder.set_bolt("total", Total(TransactionalMap(database, "totals"), failed)).global_grouping("amounts")
        cluster.submit("totals", builder.create_topology())

    def totals() -> dict[str, int]:
        return dict(TransactionalMap(database, "totals").items())

    submit()
    cluster.wait_until(lambda: totals() == dict.fromkeys("abc", 780), 30)
    assert list(failed)
    with (logs / "b").open("a") as file:
        file.write("no JSON\n")
    write(logs / "b", 20)
    write(logs / "d", 5)
    cluster.wait_until(lambda: totals() == {"a": 780, "b": 800, "c": 780, "d": 5}, 30)
    reported = [str(error) for _, error in cluster.errors("totals")]
    assert any(f"file {logs}/b: the line at byte" in text and "the message is left out" in text for text in reported)
    cluster.kill("totals")
    write(logs / "a", 20)
    submit()
    cluster.wait_until(lambda: totals() == {"a": 800, "b": 800, "c": 780, "d": 5}, 30)


def test_a_limit_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="PlannedLogSpout: limit is 0; a whole number of at least 1 was expected"):
        PlannedLogSpout(TextFileLog("/data"), limit=0)


class Away(Json):
    """Asks a service that is away, the first three times."""

    def __init__(self, asked: Any) -> None:
        super().__init__(["amount"])
        self.asked = asked

    def decode(self, data: bytes) -> Any:
        self.asked.append(data)
        if len(self.asked) <= 3:
            raise UnavailableError("the registry is away")
        return super().decode(data)


def test_a_format_whose_service_is_away_fails_the_batch_until_it_is_back(cluster: LocalCluster, tmp_path: Path) -> None:
    write(tmp_path / "log", 1, 2, 3)
    database = SqliteDatabase(tmp_path / "totals.db")
    spout = PlannedLogSpout(TextFileLog(tmp_path / "log"), Away(Log()), limit=1000, metadata=["file"])
    builder = TransactionalTopologyBuilder("away", "amounts", spout)
    builder.set_bolt("total", Total(TransactionalMap(database, "totals"), Log())).global_grouping("amounts")
    cluster.submit("away", builder.create_topology())
    cluster.wait_until(lambda: dict(TransactionalMap(database, "totals").items()) == {"log": 6}, 30)
    told = {str(error) for component, error in cluster.errors("away") if "registry" in str(error)}
    assert told == {"component 'amounts', the registry is away"}
