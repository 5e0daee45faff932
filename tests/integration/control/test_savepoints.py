"""A savepoint is taken under load, and another topology goes on from it: exactly once, with other numbers of tasks."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counted_lines import counted_lines
from test_rebalanced_tasks import counts, has_all, stored, write

from tests.integration.control.conftest import Console
from tupletree import Topology, TopologyBuilder
from tupletree._checkpoints.record import stored_checkpoint
from tupletree._stores.zookeeper_nodes import open_store
from tupletree._wire.codec import decode_value
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.files import FileSpout
from tupletree.connectors.sqlite import SqliteSink
from tupletree.errors import NotFoundError, UsageError
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=3, ackers=1) as running:
        yield running


def conf_of(directory: Path, **more: Any) -> dict[str, Any]:
    return {
        "topology.workers": 2,
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 200,
        "topology.message.timeout.secs": 10,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(directory)},
        **more,
    }


def ends(cluster: DevCluster) -> None:
    wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 30, what="the workers end")


def entries(place: Path, component: str) -> dict[Any, Any]:
    manifest = json.loads((place / "savepoint.json").read_text())
    rows = pq.read_table(place / manifest["components"][component]["files"]).to_pylist()
    return {decode_value(row["key"]): decode_value(row["value"]) for row in rows}


def test_a_topology_goes_on_from_a_savepoint_with_other_tasks(
    cluster: DevCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    console = Console(cluster, capsys)
    logs, place = tmp_path / "logs", tmp_path / "kept"
    logs.mkdir()
    written = write(logs)
    cluster.client.submit("lines", counted_lines(f"{logs}/*.txt"), conf_of(tmp_path / "states"))
    wait_until(lambda: stored(cluster).txid >= 1, 60, what="a checkpoint is stored")
    written += write(logs)
    shown = console.json("savepoint", "lines", "--to", place)
    manifest = json.loads((place / "savepoint.json").read_text())
    assert shown["checkpoint"] == manifest["checkpoint"]
    assert shown["entries"] == {id: part["entries"] for id, part in manifest["components"].items()}
    files = [one["files"] for one in manifest["components"].values()]
    assert [re.sub("@[0-9a-f]{8}[.]parquet$", "", name) for name in files] == ["count", "lines", "total"]
    assert entries(place, "total")["total"] == sum(entries(place, "count").values()), "one checkpoint of all"
    assert len(manifest["positions"]["lines"]) == 2
    assert "there is a savepoint at" in console.refusal("savepoint", "lines", "--to", place)

    written += write(logs)  # the savepoint knows nothing of these
    txid = stored(cluster).txid
    wait_until(lambda: stored(cluster).txid > txid + 2 and has_all(cluster), 60, what="checkpoints go on")
    cluster.client.kill("lines", wait_secs=0)
    ends(cluster)

    topology = counted_lines(f"{logs}/*.txt", readers=3, counters=5)
    other = conf_of(tmp_path / "other")
    cluster.client.submit("lines", topology, other, from_savepoint=place)
    cluster_kills_a_worker(cluster)
    written += write(logs)
    wait_until(lambda: stored(cluster).tasks == {"count": 5, "lines": 3, "total": 1}, 60, what="they are restored")
    wait_until(lambda: has_all(cluster), 60, what="all lines are read")
    shown = console("savepoint", "lines", "--to", tmp_path / "end", "--kill").splitlines()
    assert f"of lines is in {tmp_path / 'end'}, after" in shown[0]
    assert [line.split() for line in shown[1:] if "total" in line] == [["total", "1"]]
    assert shown[-1] == "lines is killed"
    ends(cluster)
    assert Counter(entries(tmp_path / "end", "count")) == written
    assert entries(tmp_path / "end", "total") == {"total": written.total()}
    assert sum(counts(other, stored(cluster)), Counter()) == written


def test_history_that_another_program_has_counted_is_where_a_topology_begins(
    cluster: DevCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    console = Console(cluster, capsys)
    logs, history = tmp_path / "logs", tmp_path / "history"
    logs.mkdir()
    before = {f"{line % 40} of {number}": line for line in range(40) for number in range(5)}
    (history / "count").mkdir(parents=True)
    pq.write_table(pa.table({"key": list(before), "value": list(before.values())}), history / "count/part-0.parquet")
    (history / "savepoint.json").write_text('{"tupletree_savepoint": 1, "components": {"count": {"files": "count"}}}')
    written = write(logs)
    topology = counted_lines(f"{logs}/*.txt", counters=3)
    cluster.client.submit("lines", topology, conf_of(tmp_path / "states"), from_savepoint=history)
    wait_until(lambda: stored(cluster).txid > 1 and has_all(cluster), 60, what="all lines are read")

    name = tmp_path / "counts.jsonl"
    txid = stored(cluster).txid
    wait_until(lambda: stored(cluster).txid > txid + 2, 30, what="a checkpoint has all of them")
    shown = console.json("state", "lines", "count", "export", name)
    found = {one["key"]: one["value"] for one in map(json.loads, name.read_text().splitlines())}
    assert (Counter(found), shown["entries"]) == (written + Counter(before), len(found))
    assert (
        "no state of component 'no'; it has count, lines, total"
        in console.run("state", "lines", "no", "export", name)[2]
    )
    assert "the name of the file says its format" in console.refusal("state", "lines", "count", "export", "x.xls")
    cluster.client.kill("lines", wait_secs=0)
    ends(cluster)


def written_lines(logs: Path, table: str) -> Topology:
    """Lines of files, written to a table once each."""
    sink = SqliteSink(table, "lines", {"line": "string"}, key="line")
    builder = TopologyBuilder()
    builder.set_spout("lines", FileSpout(f"{logs}/*.txt"), 2)
    builder.set_bolt("out", ExactlyOnceSinkBolt(sink), 2).fields_grouping("lines", ["line"])
    return builder.create_topology()


def test_a_sink_that_writes_once_goes_on_behind_a_savepoint_at_which_its_topology_was_killed(
    cluster: DevCluster, tmp_path: Path
) -> None:
    logs, table = tmp_path / "logs", str(tmp_path / "lines.db")
    logs.mkdir()

    def rows() -> list[str]:
        with contextlib.closing(sqlite3.connect(table)) as file, contextlib.suppress(sqlite3.OperationalError):
            return [line for (line,) in file.execute("SELECT line FROM lines ORDER BY line")]
        return []

    (logs / "a.txt").write_text("".join(f"{number:03}\n" for number in range(300)))
    conf = conf_of(tmp_path / "states")
    cluster.client.submit("written", written_lines(logs, table), conf)
    wait_until(rows, 60, what="rows are written")
    (logs / "b.txt").write_text("".join(f"{number:03}\n" for number in range(300, 600)))
    made = cluster.client.savepoint("written", tmp_path / "kept", kill=True)
    ends(cluster)
    before = rows()
    with contextlib.closing(open_store(cluster.conf)) as store:
        assert stored_checkpoint(store, "written").txid == made.checkpoint, "no checkpoint follows the savepoint"
    cluster.client.submit("written", written_lines(logs, table), conf, from_savepoint=tmp_path / "kept")
    (logs / "c.txt").write_text("".join(f"{number:03}\n" for number in range(600, 900)))
    wait_until(lambda: len(rows()) >= 900, 60, what="all rows are written")
    cluster.client.kill("written", wait_secs=0)
    ends(cluster)
    assert set(before) <= set(rows())
    assert rows() == [f"{number:03}" for number in range(900)]


def test_a_savepoint_that_does_not_fit_is_refused_before_anything_is_uploaded(
    cluster: DevCluster, tmp_path: Path
) -> None:
    topology = counted_lines(f"{tmp_path}/*.txt")
    place = tmp_path / "kept"
    place.mkdir()
    (place / "savepoint.json").write_text('{"tupletree_savepoint": 1, "components": {"gone": {"files": "gone"}}}')
    with pytest.raises(UsageError, match=r"^the savepoint has a state of component 'gone', and the topology has no"):
        cluster.client.submit("lines", topology, conf_of(tmp_path), from_savepoint=place)
    with pytest.raises(UsageError, match=r"^there is no savepoint at .*/none: it has no savepoint.json$"):
        cluster.client.submit("lines", topology, conf_of(tmp_path), from_savepoint=tmp_path / "none")
    assert not [one for one in cluster.client.list() if one.record.name == "lines"]
    with pytest.raises(NotFoundError, match=r"^there is no topology named 'none'; 'tupletree list' shows the names$"):
        cluster.client.savepoint("none", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def cluster_kills_a_worker(cluster: DevCluster) -> None:
    """Kill -9 the first worker that is there, while it restores the states."""
    wait_until(lambda: [one for one in cluster.processes if one.role == "worker"], 60, what="a worker starts")
    cluster.kill("worker", 0)
