"""Rows of Parquet files as messages."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_components import Log

from tupletree import TopologyBuilder, bolt
from tupletree._wire.codec import decode_value, encode_value
from tupletree.connectors.parquet import ParquetLog, ParquetSpout
from tupletree.errors import FailedException
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


def test_a_damaged_file_is_reported_and_stops_no_other(tmp_path: Path) -> None:
    write(tmp_path / "a", ["ann"])
    (tmp_path / "b").write_bytes(b"PAR1 and so on PAR1")
    write(tmp_path / "c", ["cid"])
    rows = Log()
    builder = TopologyBuilder()
    spout = builder.set_spout("visits", ParquetSpout(tmp_path, ["user"]))
    builder.set_bolt("keep", bolt(lambda tup, collector: rows.append(tup["user"]))).shuffle_grouping(spout)
    with LocalCluster() as cluster:
        cluster.submit("rows", builder.create_topology())
        cluster.wait_until(lambda: sorted(rows) == ["ann", "cid"])
        cluster.wait_until(lambda: cluster.errors("rows"))
        [(_, error)] = cluster.errors("rows")
        assert str(error).startswith(f"file {tmp_path}/b cannot be read: ")
        write(tmp_path / "b", ["bob"])
        cluster.wait_until(lambda: list(rows)[2:] == ["bob"])


def test_times_of_nanoseconds_arrive_in_microseconds(tmp_path: Path) -> None:
    nanos = 1_700_000_000_123_456_789
    columns = {
        "zoned": pa.array([nanos, None], pa.timestamp("ns", "Europe/Berlin")),
        "plain": pa.array([nanos, None], pa.timestamp("ns")),
        "wait": pa.array([1_500_000_001, None], pa.duration("ns")),
        "time": pa.array([1_500_000_001, None], pa.time64("ns")),
    }
    pq.write_table(pa.table(columns), tmp_path / "times")
    log = ParquetLog(tmp_path, list(columns))
    [records] = log.read("times", 0, 2)
    at = datetime(2023, 11, 14, 22, 13, 20, 123456)
    row = list(decode_value(encode_value(records[0].data)))
    assert row == [at.replace(tzinfo=UTC), at, timedelta(seconds=1.5), time(0, 0, 1, 500000)]
    assert records[1].data == (None,) * 4


def test_times_of_nanoseconds_within_lists_structs_and_maps_arrive_in_microseconds(tmp_path: Path) -> None:
    nanos, at = 1_700_000_000_123_456_789, datetime(2023, 11, 14, 22, 13, 20, 123456)
    kind = pa.timestamp("ns")
    columns = {
        "list": pa.array([[nanos]], pa.list_(kind)),
        "struct": pa.array([{"at": nanos, "n": 1}], pa.struct([("at", kind), ("n", pa.int32())])),
        "map": pa.array([[("a", [1_001])]], pa.map_(pa.string(), pa.list_(pa.duration("ns")))),
    }
    pq.write_table(pa.table(columns), tmp_path / "times")
    [[record]] = ParquetLog(tmp_path, list(columns)).read("times", 0, 1)
    row = decode_value(encode_value(list(record.data)))
    assert row == [[at], {"at": at, "n": 1}, [("a", [timedelta(microseconds=1)])]]


def test_a_row_that_python_cannot_have_is_given_up_alone(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2, 3], "at": pa.array([0, 10**18, 1_000_000], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "times")
    rows, letters = Log(), Log()
    builder = TopologyBuilder()
    spout = builder.set_spout("times", ParquetSpout(tmp_path, ["n", "at"])).set_dead_letters("rejected")
    builder.set_bolt("keep", bolt(lambda tup, collector: rows.append(tup["n"]))).shuffle_grouping(spout)
    keep = bolt(lambda tup, collector: letters.append((tup["message"], tup["error"])))
    builder.set_bolt("letters", keep).shuffle_grouping(spout, "rejected")
    with LocalCluster() as cluster:
        cluster.submit("rows", builder.create_topology())
        cluster.wait_until(lambda: (list(rows), len(letters)) == ([1, 3], 1), 30)
    [(message, error)] = letters
    assert (message, error) == ("times@1", "FormatError: the value of 'at' cannot be read: date value out of range")


def test_a_time_zone_that_is_not_known_here_is_reported_with_its_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([0], pa.timestamp("us", "Mars/Olympus"))}), tmp_path / "times")
    with pytest.raises(FailedException, match=f"file {tmp_path}/times cannot be read: .*Mars/Olympus"):
        list(ParquetLog(tmp_path, ["at"]).read("times", 0, 1))


def test_a_directory_that_is_missing_is_named_and_no_connection_is_said_to_be_lost(tmp_path: Path) -> None:
    rows, missing = Log(), tmp_path / "visits"

    def keep(tup: Any, collector: Any) -> None:
        rows.append(tuple(tup.values))

    builder = TopologyBuilder()
    spout = builder.set_spout("visits", ParquetSpout(missing, ["user"]))
    builder.set_bolt("keep", bolt(keep)).shuffle_grouping(spout)
    with LocalCluster() as cluster:
        cluster.submit("rows", builder.create_topology())
        cluster.wait_until(lambda: cluster.errors("rows"), 30)
        text = f"files: not available: [Errno 2] No such file or directory: '{missing}'; the spout goes on trying"
        assert str(cluster.errors("rows")[0][1]) == text
        missing.mkdir()
        write(missing / "a", ["ann"])
        cluster.wait_until(lambda: list(rows) == [("ann",)], 30)
