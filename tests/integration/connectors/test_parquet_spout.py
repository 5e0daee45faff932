"""Rows of Parquet files as messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from local_components import Log

from tupletree import TopologyBuilder, bolt
from tupletree.connectors.parquet import ParquetSpout
from tupletree.testing import LocalCluster


def write(path: Path, users: list[str]) -> None:
    table = pa.table({"amount": range(len(users)), "user": users})
    pq.write_table(table, path.with_name(f".{path.name}"), row_group_size=3)
    path.with_name(f".{path.name}").rename(path)


def test_every_row_of_every_file_is_a_message_and_a_restart_repeats_none(tmp_path: Path) -> None:
    write(tmp_path / "a", ["ann", "bob", "cid", "dan", "eve"])
    rows = Log()

    def keep(tup: Any, collector: Any) -> None:
        rows.append(tuple(tup.values))

    with LocalCluster() as cluster:

        def submit() -> None:
            builder = TopologyBuilder()
            spout = builder.set_spout("visits", ParquetSpout(tmp_path, ["user", "amount"], metadata=["file"]))
            builder.set_bolt("keep", bolt(keep)).shuffle_grouping(spout)
            cluster.submit("rows", builder.create_topology())

        submit()
        expected = [(user, at, "a") for at, user in enumerate(["ann", "bob", "cid", "dan", "eve"])]
        cluster.wait_until(lambda: list(rows) == expected)
        cluster.wait_until(lambda: "tupletree_spout_outstanding_messages" in cluster.metrics("rows"))
        cluster.wait_quiet()
        cluster.kill("rows")
        write(tmp_path / "b", ["fay"])
        submit()
        cluster.wait_until(lambda: list(rows) == [*expected, ("fay", 0, "b")])
