"""What operators are told of a topology that is wrong: by health, errors and describe, and by REST.

All topologies run side by side from the beginning, so that waiting for one lets the others go on.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import told_topologies
from told_harness import Reader, one_line

from tests.integration.control.conftest import Console
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

PATIENCE_S = 90
NEVER_ACKS = r"has executed [\d,]+ tuples and acked none: does execute call self\.collector\.ack\?"
WARNING = (
    "warning: spout 'numbers' emits with msg_id and does not override fail: a tuple that fails is given up, not "
    "replayed; define Deaf.fail(msg_id) to emit it again\n"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=6) as running:
        for name in ("forgets", "loops"):
            running.client.submit(name, getattr(told_topologies, name)())
        running.client.submit("sleeps", *told_topologies.sleeps())
        running.client.submit("keeps", *told_topologies.keeps(2, f"{running.directory}/keeps"))
        running.client.submit("late", *told_topologies.late())
        yield running


@pytest.fixture
def reader(cluster: DevCluster, capsys: pytest.CaptureFixture[str]) -> Reader:
    return Reader(cluster, Console(cluster, capsys))


@pytest.fixture
def drops(cluster: DevCluster, reader: Reader) -> str:
    """The name of a topology whose spout has no fail; submitted by the command, which says so."""
    file = Path(told_topologies.__file__)
    status, out, err = reader.console.run("submit", f"{file}:drops", "--name", "drops")
    assert (status, err) == (0, WARNING)
    assert out.startswith("submitted drops as ")
    return "drops"


def test_messages_that_a_spout_gives_up_are_counted(cluster: DevCluster, reader: Reader, drops: str) -> None:
    wait_until(lambda: reader.component(drops, "numbers")["failed"] == 10, PATIENCE_S, what="each third has failed")
    note = reader.reason(drops, "trees.given_up")
    assert note["severity"] == "warning"
    assert note["sentence"] == (
        "topology 'drops', numbers: 10 failed messages given up: the spout does not override fail"
    )
    assert reader.offered(note)

    def rest_counts() -> tuple[int, int]:
        (spout,) = reader.page(drops)["spouts"]
        return spout["acked"], spout["failed"]

    wait_until(lambda: rest_counts() == (20, 10), what="REST has counted all")
    worker = next(one for one in cluster.processes if one.topology_id.startswith("drops-"))

    def metrics() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{worker.http_port}/metrics", timeout=10) as page:
            return str(page.read().decode())

    assert re.search(r'tupletree_worker_unheard_trees_total\{[^}]*component="numbers"[^}]*\} 10(\.0)?\n', metrics())


def test_a_state_that_cannot_be_divided_is_refused_with_the_reason(cluster: DevCluster, reader: Reader) -> None:
    def has_checkpoint() -> bool:
        statuses = [one["status"] for one in reader.console.json("describe", "keeps")["statuses"]]
        return any(one.get("kind") == "checkpoint" and (one.get("txid") or 0) >= 1 for one in statuses)

    wait_until(has_checkpoint, PATIENCE_S, what="a checkpoint is stored")
    cluster.client.kill("keeps", wait_secs=0)
    wait_until(lambda: "keeps" not in {one.record.name for one in cluster.client.list()}, 60, what="it is gone")
    cluster.client.submit("keeps", *told_topologies.keeps(3, f"{cluster.directory}/keeps"))

    truth = (
        "component 'works' has 3 tasks, and the stored checkpoint was taken with 2; its state cannot be divided, as "
        "key 'count' belongs to no fields grouping; go back to 2 tasks, by a rebalance or as you submit the topology, "
        "or begin with empty states by another topology.state.id"
    )
    reader.reason("keeps", "checkpoint.refused", timeout_s=PATIENCE_S)
    first = next(one for one in reader.reasons("keeps") if one["kind"] != "topology.starting")
    assert first["severity"] == "degraded"
    assert truth in first["sentence"]
    told = [reader.offered(first), *(reader.console(command, "keeps") for command in ("describe", "errors"))]
    assert all(truth in one_line(one) for one in told)
    (checkpoint,) = reader.page("keeps", "checkpoints")["checkpoints"]
    assert checkpoint["state"] == "refused"
    assert checkpoint["status"]["reason"] == truth
    errors = reader.page("keeps")["topologyErrors"]
    assert any(truth in one["message"] for one in errors)
    everything = "\n".join([*told, str(reader.reasons("keeps")), str(errors), str(checkpoint)])
    assert "taken over" not in everything
    assert "took over" not in everything


def test_the_newest_number_of_late_tuples_is_kept_and_they_degrade_the_topology(reader: Reader) -> None:
    fault = reader.reason("late", "tuples.late", timeout_s=PATIENCE_S)
    assert fault["severity"] == "degraded"
    assert re.fullmatch(
        r"topology 'late', works: [\d,]+ tuples? w\w+ dropped as late so far, the newest \d+ s ago: raise max_lag, or "
        "name a late_stream",
        fault["sentence"],
    )
    wait_until(
        lambda: "1,024 tuples are late so far and were dropped" in one_line(reader.console("errors", "late")),
        PATIENCE_S,
        what="the last report of their number is stored, though it came with ten others",
    )


def test_a_bolt_that_acks_nothing_is_named(reader: Reader) -> None:
    reason = reader.reason("forgets", "component.never_acks")
    assert reason["component"] == "works"
    assert re.fullmatch(rf"topology 'forgets', works: {NEVER_ACKS}", reason["sentence"])
    assert re.search(rf"^works: {NEVER_ACKS}$", reader.offered(reason), re.MULTILINE)
    assert re.fullmatch(NEVER_ACKS, reader.component("forgets", "works")["remark"])
    assert reader.component("forgets", "numbers")["remark"] == ""
    page = reader.page("forgets")
    assert [bool(re.fullmatch(NEVER_ACKS, one["remark"])) for one in page["bolts"]] == [True]
    assert not any(one.get("remark") for one in page["spouts"])


def test_no_complete_latency_where_no_tree_completed(reader: Reader) -> None:
    wait_until(lambda: reader.component("forgets", "works")["executed"], PATIENCE_S, what="it runs")
    figures = reader.component("forgets", "numbers")
    assert (figures["complete_ms"], figures["complete_p50_ms"], figures["complete_p99_ms"]) == (None, None, None)
    lines = [re.split(r"  +", line.strip().lower()) for line in reader.console("describe", "forgets").splitlines()]
    heading = next(line for line in lines if line[0] == "component")
    shown = next(line for line in lines if line[0] == "numbers")
    assert shown[heading.index("complete ms")] == "-"
    watched = reader.console("monitor", "forgets", "-n", "1", "-i", "0.2")
    row = next(line for line in watched.splitlines() if re.search(r"\bnumbers\b", line))
    assert len(re.findall(r"(?<=\s)-(?=\s|$)", row)) >= 3, watched  # the mean, p50 and p99
    page = reader.page("forgets")
    nothing = {"p50": None, "p99": None, "p999": None}
    for one in (*page["topologyStats"], *page["spouts"]):
        assert (one["completeLatency"], one["completeLatencyPercentiles"]) == ("0.000", nothing)


def test_a_call_that_does_not_end_is_named_with_its_stack(reader: Reader) -> None:
    reason = reader.reason("loops", "component.long_call", "component.stuck")  # after a minute it is a fault
    assert reason["component"] == "works"
    called = r"task \d+ has been in one call of its code for \d+ s although tuples wait"
    stuck = r"1 task executed nothing for \d+ s although tuples wait"
    assert re.fullmatch(rf"topology 'loops', works: ({called}|{stuck})", reason["sentence"])
    assert re.fullmatch(r"tupletree profile loops \d+ --stacks", reason["command"])
    assert "round_and_round" in reader.offered(reason)
    assert re.search(rf"^works: {called}$", reader.console("describe", "loops"), re.MULTILINE)
    (bolt,) = reader.page("loops")["bolts"]
    assert re.fullmatch(called, bolt["remark"])


def test_percentiles_are_within_a_tenth_of_what_was_measured(reader: Reader) -> None:
    measured = told_topologies.MEASURED
    wait_until(lambda: reader.component("sleeps", "numbers")["acked"] == measured, PATIENCE_S, what="all are acked")

    def all_told() -> list[float]:
        status = reader.console.json("describe", "sleeps")["statuses"][0]["status"]
        return list(status["took_ms"]) if len(status["took_ms"]) == measured else []

    took_ms = wait_until(all_told, what="the bolt says how long each took")
    figures = reader.component("sleeps", "works")
    (bolt,) = reader.page("sleeps")["bolts"]
    rest = bolt["processLatencyPercentiles"]
    for p50, p99, mean in (
        (figures["process_p50_ms"], figures["process_p99_ms"], figures["process_ms"]),
        (rest["p50"], rest["p99"], float(bolt["processLatency"])),
    ):
        assert p50 <= p99
        assert p50 <= 1.1 * mean  # half of them took longer than the sleep by next to nothing
        assert 0.9 * took_ms[0] <= p50 <= 1.1 * took_ms[measured * 3 // 4]
        assert 0.9 * took_ms[measured * 9 // 10] <= p99 <= 1.1 * took_ms[-1]
