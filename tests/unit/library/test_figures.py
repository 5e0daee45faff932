"""What the command line works out from nimbus' reports, and how it shows it."""

from __future__ import annotations

import pytest

from tupletree.cli.figures import component_figures, rates, totals
from tupletree.cli.output import duration, message_dict, millis
from tupletree.client import ComponentStats
from tupletree.v1 import nimbus_pb2, topology_pb2
from tupletree.v1.nimbus_pb2 import InputStats, StreamStats, TaskStats
from tupletree.v1.topology_pb2 import ComponentKind, TopologyRecord, TopologyStatus


def reported(
    kind: ComponentKind = ComponentKind.COMPONENT_KIND_BOLT, emitted: int = 0, **total: float
) -> nimbus_pb2.ComponentStats:
    streams = [StreamStats(stream="default", emitted=emitted, transferred=2 * emitted)]
    return nimbus_pb2.ComponentStats(component_id="c", kind=kind, total=TaskStats(streams=streams, **total))  # type: ignore[arg-type]


def stats(kind: ComponentKind = ComponentKind.COMPONENT_KIND_BOLT, emitted: int = 0, **total: float) -> ComponentStats:
    return ComponentStats.of(reported(kind, emitted, **total))


def test_latencies_are_means_in_milliseconds() -> None:
    figures = component_figures(
        stats(executed=4, execute_s=0.002, process_s_sum=0.1, process_samples=5, complete_s_sum=1.0, complete_samples=2)
    )
    assert (figures["execute_ms"], figures["process_ms"], figures["complete_ms"]) == (0.5, 20.0, 500.0)


def test_what_was_not_measured_is_none() -> None:
    figures = component_figures(stats())
    assert (figures["execute_ms"], figures["process_ms"], figures["complete_ms"]) == (None, None, None)
    assert component_figures(stats(ComponentKind.COMPONENT_KIND_SPOUT, executed=3, execute_s=1))["execute_ms"] is None


def test_emitted_is_the_sum_of_the_users_streams_and_of_all_streams_of_a_component_of_the_system() -> None:
    told = reported(emitted=3)
    told.total.streams.add(stream="other", emitted=4, transferred=5)
    told.total.streams.add(stream="__watermark", emitted=100, transferred=100)
    figures = component_figures(ComponentStats.of(told))
    assert (figures["emitted"], figures["transferred"]) == (7, 11)
    assert figures["streams"][1] == {"stream": "other", "emitted": 4, "transferred": 5}
    told.component_id = "$checkpointspout"
    assert component_figures(ComponentStats.of(told))["emitted"] == 107


def test_ticks_are_neither_executed_nor_acked_nor_part_of_the_time_of_a_tuple() -> None:
    def told(words: int, ticks: int) -> ComponentStats:
        inputs = [
            InputStats(
                source_component="words", stream="default", executed=words, acked=words, execute_s=0.001 * words
            ),
            InputStats(
                source_component="__system", stream="__tick", executed=ticks, acked=ticks, execute_s=1.0 * ticks
            ),
        ]
        report = reported(executed=words + ticks, acked=words + ticks, execute_s=0.001 * words + ticks)
        report.total.inputs.extend(inputs)
        return ComponentStats.of(report)

    figures = component_figures(told(100, 40))
    assert (figures["executed"], figures["acked"], figures["execute_ms"]) == (100, 100, 1.0)
    view = rates(told(100, 40), told(120, 80), 2.0)
    assert (view["executed_per_s"], view["acked_per_s"], view["execute_ms"]) == (10, 10, 1.0)


def test_rates_are_those_of_the_interval() -> None:
    before = stats(emitted=100, executed=50, acked=50, execute_s=5.0)
    now = stats(emitted=300, executed=150, acked=130, failed=10, execute_s=5.2)
    view = rates(before, now, 2.0)
    assert (view["emitted_per_s"], view["executed_per_s"], view["acked_per_s"], view["failed_per_s"]) == (
        100,
        50,
        40,
        5,
    )
    assert view["execute_ms"] == pytest.approx(2.0)
    assert view["emitted"] == 300


def test_a_restarted_worker_makes_no_negative_rates() -> None:
    told = reported(emitted=5, executed=5)
    told.emitted_per_s = 2.5
    now = ComponentStats.of(told)
    assert rates(stats(emitted=100, executed=200), now, 2.0)["emitted_per_s"] == 2.5
    assert rates(None, now, 2.0)["emitted_per_s"] == 2.5


def test_totals_count_acks_at_the_spouts() -> None:
    spout = component_figures(stats(ComponentKind.COMPONENT_KIND_SPOUT, acked=5, failed=2, pending=7, timeouts=1))
    bolt = component_figures(stats(acked=50, queued=3))
    assert totals([spout, bolt]) == {
        "emitted_per_s": 0.0,
        "acked_per_s": 0.0,
        "acked": 5,
        "failed": 2,
        "timeouts": 1,
        "pending": 7,
    }


def test_a_message_becomes_plain_values() -> None:
    record = TopologyRecord(name="n", status=TopologyStatus.TOPOLOGY_STATUS_ACTIVE, tasks={"a": 2}, bundle_bytes=2**40)
    told = message_dict(record)
    assert (told["name"], told["status"], told["tasks"]) == ("n", "active", {"a": 2})
    assert told["bundle_bytes"] == 2**40
    assert told["pending"] is None
    assert told["owner"] == ""
    record.log_levels["kazoo"].level = "DEBUG"
    assert message_dict(record)["log_levels"]["kazoo"]["level"] == "DEBUG"
    record.pending.resume = TopologyStatus.TOPOLOGY_STATUS_INACTIVE
    assert message_dict(record)["pending"]["resume"] == "inactive"
    component = message_dict(topology_pb2.ComponentSpec(id="a", object=b"\x00", inputs=[{"source": "b"}]))
    assert "object" not in component
    assert component["inputs"][0]["source"] == "b"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0s"), (59.9, "59s"), (61, "1m 01s"), (7260, "2h 01m"), (90000, "1d 01h"), (-3, "0s")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_milliseconds() -> None:
    assert (millis(None), millis(0.1234), millis(1234.5)) == ("-", "0.123", "1,234.5")
