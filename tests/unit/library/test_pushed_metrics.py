"""Metrics that are pushed: what is read, differences and starts of counters, lines of statsd, requests of OTLP."""

from __future__ import annotations

import contextlib
import json
import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from tupletree.cli.metrics import parse_time_s
from tupletree.cli.pushing import otlp
from tupletree.cli.pushing.addresses import parse_address
from tupletree.cli.pushing.history import FORGOTTEN_S, Differences, Starts
from tupletree.cli.pushing.notices import NIMBUS, Notices
from tupletree.cli.pushing.otlp import Requests, rejected
from tupletree.cli.pushing.readings import (
    Distribution,
    Reading,
    Series,
    Target,
    parse_reading,
    parse_targets,
)
from tupletree.cli.pushing.receivers import headers_of
from tupletree.cli.pushing.rounds import Round, push_rounds
from tupletree.cli.pushing.source import nimbus_addresses
from tupletree.cli.pushing.statsd import MAX_PACKET_BYTES, lines_of, packets_of
from tupletree.errors import UsageError

WORKER = Target("10.0.0.7:41223", "worker", "w1", "words", "words-1-1", "s1:6700")
PAGE = """\
# HELP tupletree_worker_acked_tuples_total Tuples that a bolt acked.
# TYPE tupletree_worker_acked_tuples_total counter
tupletree_worker_acked_tuples_total{topology="words",component="count",task="3"} 120.0
# HELP tupletree_worker_queued_tuples Tuples that wait.
# TYPE tupletree_worker_queued_tuples gauge
tupletree_worker_queued_tuples{topology="words",component="count",task="3"} 7.0
tupletree_worker_queued_tuples{topology="words",component="count",task="4"} NaN
# HELP process_start_time_seconds Start time.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1000.5
# HELP tupletree_user_split_seconds Splitting.
# TYPE tupletree_user_split_seconds histogram
tupletree_user_split_seconds_bucket{task="3",le="0.1"} 2.0
tupletree_user_split_seconds_bucket{task="3",le="1.0"} 5.0
tupletree_user_split_seconds_bucket{task="3",le="+Inf"} 6.0
tupletree_user_split_seconds_count{task="3"} 6.0
tupletree_user_split_seconds_sum{task="3"} 4.5
"""
LABELS = (("component", "count"), ("task", "3"), ("topology", "words"))


def reading(*values: float, at_s: float = 100.0, started_s: float = math.nan, target: Target = WORKER) -> Reading:
    """A reading of counters a_total, b_total and so on."""
    series = [Series(f"{chr(97 + at)}_total", "counter", (), value) for at, value in enumerate(values)]
    return Reading(target, at_s, started_s, tuple(series))


def grown(differences: Differences, one: Reading) -> dict[str, float]:
    return {found.series.name: found.amount for found in differences.of(one)}


def test_a_page_is_read_without_values_that_are_not_known() -> None:
    found = parse_reading(WORKER, PAGE, 2000.0)
    assert (found.started_s, found.at_s) == (1000.5, 2000.0)
    assert [(one.name, one.kind, one.labels, one.value) for one in found.series] == [
        ("tupletree_worker_acked_tuples_total", "counter", LABELS, 120.0),
        ("tupletree_worker_queued_tuples", "gauge", LABELS, 7.0),
        ("process_start_time_seconds", "gauge", (), 1000.5),
        (
            "tupletree_user_split_seconds",
            "histogram",
            (("task", "3"),),
            Distribution((0.1, 1.0), (2, 3, 1), 4.5, 6),
        ),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a{",
        "# TYPE h histogram\nh_bucket{le='1'} 1\n",
        '# TYPE h histogram\nh_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\n',
        '# TYPE h histogram\nh_bucket{le="1"} 2\n',
        '# TYPE h histogram\nh_bucket{le="1"} NaN\nh_bucket{le="+Inf"} 1\n',
        '# TYPE h histogram\nh_bucket{le="x"} 1\n',
    ],
)
def test_a_page_that_is_malformed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_reading(WORKER, text, 0.0)


@given(st.text())
def test_any_page_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_reading(WORKER, text, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        PAGE.replace('+Inf"} 6.0', '+Inf"} 1e300'),
        PAGE.replace('{task="3",le="0.1"}', '{le="0.1", ="3"}'),
        PAGE.replace(" 1000.5", " -1e300"),
        PAGE.replace(" 4.5", " 1e400"),
    ],
)
def test_a_page_of_one_process_does_not_end_the_pushing_of_all(text: str) -> None:
    """Users' code in a worker can show whatever it likes."""
    try:
        one = parse_reading(WORKER, text, 100.0)
    except ValueError:
        return  # the page is left out
    assert list(Requests("tupletree").of([one], 100.0))
    assert list(lines_of(one, Differences(0.0).of(one), "tupletree", "dogstatsd"))


def test_the_list_of_nimbus_is_read() -> None:
    meta = {"role": "worker", "id": "w1", "topology": "words", "topology_id": "words-1-1", "slot": "s1:6700"}
    entry = {"targets": [WORKER.address], "labels": {f"__meta_tupletree_{name}": value for name, value in meta.items()}}
    acker = {"targets": ["10.0.0.8:6641"], "labels": {"__meta_tupletree_role": "acker", "__meta_tupletree_id": "a"}}
    assert parse_targets(json.dumps([entry, acker]).encode()) == [WORKER, Target("10.0.0.8:6641", "acker", "a")]
    assert [WORKER.place, Target("10.0.0.8:6641", "acker", "a").place] == ["s1:6700", "a"]


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[1]",
        "[{}]",
        '[{"labels": {}, "targets": [1]}]',
        "[",
        '[{"labels": {"__meta_tupletree_id": 1}, "targets": ["a"]}]',
    ],
)
def test_a_list_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_targets(text.encode())


def test_counters_of_an_older_process_count_from_their_first_reading() -> None:
    differences = Differences(began_s=50.0)
    assert grown(differences, reading(10.0, started_s=47.0)) == {}
    differences.commit([reading(10.0)], 100.0)
    assert grown(differences, reading(15.0, 3.0)) == {"a_total": 5.0, "b_total": 3.0}


def test_counters_of_a_younger_process_count_from_its_start() -> None:
    differences = Differences(began_s=50.0)
    assert grown(differences, reading(10.0, started_s=51.0)) == {"a_total": 10.0}


def test_what_was_not_sent_is_sent_with_the_next() -> None:
    differences = Differences(began_s=0.0)
    differences.commit([reading(10.0)], 100.0)
    assert grown(differences, reading(12.0)) == {"a_total": 2.0}
    assert grown(differences, reading(15.0)) == {"a_total": 5.0}


def test_a_counter_that_begins_anew_counts_from_0() -> None:
    differences = Differences(began_s=0.0)
    differences.commit([reading(10.0)], 100.0)
    assert grown(differences, reading(4.0)) == {"a_total": 4.0}


def test_a_histogram_grows_by_its_count_and_sum() -> None:
    differences = Differences(began_s=0.0)
    before, after = Distribution((1.0,), (1, 1), 3.0, 2), Distribution((1.0,), (2, 1), 3.5, 3)
    both = [Reading(WORKER, 1.0, math.nan, (Series("h", "histogram", (), one),)) for one in (before, after)]
    differences.commit(both[:1], 1.0)
    assert [(one.amount, one.sum) for one in differences.of(both[1])] == [(1.0, 0.5)]


def test_a_process_is_forgotten_after_a_while_and_not_counted_twice() -> None:
    differences = Differences(began_s=0.0)
    differences.commit([reading(10.0, started_s=1.0)], 100.0)
    differences.commit([], 100.0 + FORGOTTEN_S - 1)
    assert grown(differences, reading(12.0, started_s=1.0)) == {"a_total": 2.0}
    differences.commit([], 100.0 + FORGOTTEN_S)
    assert grown(differences, reading(12.0, at_s=100.0 + FORGOTTEN_S, started_s=1.0)) == {}


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_the_differences_add_up_to_what_was_counted(steps: list[tuple[int, bool]]) -> None:
    """Each step counts, and is sent or not."""
    differences = Differences(began_s=0.0)
    sent = counted = last_sent = 0.0
    for growth, is_sent in steps:
        counted += growth
        now = reading(counted, started_s=1.0)
        found = grown(differences, now).get("a_total", 0.0)
        if is_sent:
            sent += found
            differences.commit([now], 1.0)
            last_sent = counted
    assert sent == last_sent


def test_a_counter_began_with_its_process_or_between_two_readings() -> None:
    starts = Starts()
    key = ("a_total", ())
    assert starts.of(reading(5.0, at_s=100.0, started_s=20.0)) == {key: 20.0}
    assert starts.of(reading(6.0, at_s=110.0, started_s=20.0)) == {key: 20.0}
    assert starts.of(reading(1.0, at_s=120.0, started_s=20.0)) == {key: 110.0}
    assert starts.of(reading(2.0, at_s=130.0, started_s=20.0)) == {key: 110.0}
    starts.forget(130.0 + FORGOTTEN_S)
    assert starts.of(reading(2.0, at_s=900.0)) == {key: 900.0}


def test_lines_with_tags() -> None:
    found = parse_reading(WORKER, PAGE, 2000.0)
    tags = "job:tupletree-worker,instance:s1:6700,component:count,task:3,topology:words"
    process = "job:tupletree-worker,instance:s1:6700,topology:words"
    began = Differences(999.0).of(found._replace(at_s=1001.0))  # before the process did
    timer = "job:tupletree-worker,instance:s1:6700,task:3,topology:words"
    assert list(lines_of(found, began, "tupletree", "dogstatsd")) == [
        f"tupletree_worker_queued_tuples:7|g|#{tags}",
        f"process_start_time_seconds:1000.5|g|#{process}",
        f"tupletree_worker_acked_tuples_total:120|c|#{tags}",
        f"tupletree_user_split_seconds_count:6|c|#{timer}",
        f"tupletree_user_split_seconds_sum:4.5|c|#{timer}",
    ]


def test_lines_without_tags_have_the_labels_in_their_names_and_negative_gauges_are_set() -> None:
    labels = (("component", "a.b:c|d"), ("task", "3"))
    found = Reading(WORKER, 1.0, math.nan, (Series("depth", "gauge", labels, -2.0), Series("x", "gauge", (), 0.25)))
    assert list(lines_of(found, (), "prod", "none")) == [
        "prod.worker.s1_6700.depth.a_b_c_d.3:0|g\nprod.worker.s1_6700.depth.a_b_c_d.3:-2|g",
        "prod.worker.s1_6700.x:0.25|g",
    ]


@given(st.lists(st.text(alphabet="abé", max_size=MAX_PACKET_BYTES + 10), max_size=20))
def test_packets_hold_all_lines_that_fit_in_their_order(lines: list[str]) -> None:
    packets = list(packets_of(lines))
    assert all(0 < len(packet) <= MAX_PACKET_BYTES for packet in packets)
    fitting = [line for line in lines if 0 < len(line.encode()) <= MAX_PACKET_BYTES]
    assert [line for packet in packets for line in packet.decode().split("\n") if line] == fitting


def test_requests_of_otlp_are_divided_and_cumulative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MAX_POINTS", 3)
    found = list(Requests("prod").of([parse_reading(WORKER, PAGE, 2000.0)], 2000.0))
    assert [count for count, _ in found] == [3, 1]
    first, second = (ExportMetricsServiceRequest.FromString(message).resource_metrics[0] for _, message in found)
    resource = {one.key: one.value.string_value for one in first.resource.attributes}
    assert resource["service.name"] == "prod-worker"
    assert (resource["service.instance.id"], resource["tupletree.slot"]) == ("w1", "s1:6700")
    counter, gauge, _ = first.scope_metrics[0].metrics
    assert (counter.name, counter.description) == ("tupletree_worker_acked_tuples_total", "Tuples that a bolt acked.")
    assert counter.sum.is_monotonic
    assert counter.sum.aggregation_temporality == 2  # cumulative
    [point] = counter.sum.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano, point.as_double) == (
        1000_500_000_000,
        2000_000_000_000,
        120.0,
    )
    assert {one.key: one.value.string_value for one in point.attributes} == dict(LABELS)
    assert gauge.gauge.data_points[0].as_double == 7.0
    [histogram] = second.scope_metrics[0].metrics
    [distribution] = histogram.histogram.data_points
    assert histogram.unit == "s"
    assert (list(distribution.bucket_counts), list(distribution.explicit_bounds)) == ([2, 3, 1], [0.1, 1.0])
    assert (distribution.count, distribution.sum, distribution.start_time_unix_nano) == (6, 4.5, 1000_500_000_000)


def test_what_a_receiver_rejects_is_told() -> None:
    partial = ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
    reply = ExportMetricsServiceResponse(partial_success=partial).SerializeToString()
    assert rejected(reply) == "3 of them rejected: too old"
    assert rejected(b"") is None
    assert rejected(b"{not protobuf") is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("otlp://collector", "otlp://collector:4318/v1/metrics"),
        ("otlps://x.example:443/api/otlp", "otlps://x.example:443/api/otlp"),
        ("otlp+grpc://collector", "otlp+grpc://collector:4317"),
        ("otlps+grpc://x.example:443", "otlps+grpc://x.example:443"),
        ("statsd://[::1]:9125", "statsd://[::1]:9125"),
        ("statsd://host", "statsd://host:8125"),
    ],
)
def test_an_address_has_a_port_by_default(text: str, shown: str) -> None:
    assert str(parse_address(text)) == shown


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("collector:4317", r"takes otlp://HOST:PORT"),
        ("http://collector:4318", r"takes otlp://HOST:PORT"),
        ("otlp://", r"names no host"),
        ("statsd://host:99999", r"a port that is none: write statsd://HOST:PORT"),
        ("otlp://user@host", r"names no host"),
        ("otlp+grpc://host/v1/metrics", r"has a path, which otlp\+grpc has not: write otlp\+grpc://HOST:PORT"),
        ("statsd://host:8125/path", r"has a path, which statsd has not"),
    ],
)
def test_a_wrong_address_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_address(text)


def test_times_and_headers() -> None:
    assert [parse_time_s(text) for text in ("500ms", "10s", "2m", "1h")] == [0.5, 10.0, 120.0, 3600.0]
    for text in ("10", "0s", "-1s", "1d", "1.5s"):
        with pytest.raises(UsageError, match=r"--every takes a time such as 500ms, 10s or 2m"):
            parse_time_s(text)
    assert headers_of(["api-key=a%20b, x = 1", ""]) == {"api-key": "a b", "x": "1"}
    with pytest.raises(UsageError, match=r"OTEL_EXPORTER_OTLP_HEADERS holds NAME=VALUE"):
        headers_of(["secret"])


def test_nimbuses_are_asked_at_their_http_ports() -> None:
    conf = {"nimbus.seeds": ["a", "b:6700", "a:1"], "nimbus.http.port": 8080}
    assert nimbus_addresses(None, conf) == ["a:8080", "b:8080"]
    assert nimbus_addresses("[::1]:6627,c", conf) == ["[::1]:8080", "c:8080"]


def test_a_fault_is_told_once_until_it_is_over() -> None:
    said: list[str] = []
    notices = Notices(said.append)
    for _ in range(2):
        notices.report("a:1", "a is away")
        notices.report(NIMBUS, "nimbus is away")
    notices.resolve("a:1", "a is back")
    notices.resolve("a:1", "a is back")
    notices.report("a:1", "a is away")
    notices.forget_others(["b:1"])
    notices.resolve("a:1", "a is back")
    notices.resolve(NIMBUS, "nimbus is back")
    assert said == ["a is away", "nimbus is away", "a is back", "a is away", "nimbus is back"]


def test_the_last_round_follows_the_signal() -> None:
    stop = threading.Event()
    pushed: list[int] = []

    def push() -> Round:
        pushed.append(len(pushed))
        if len(pushed) == 3:
            stop.set()
        return Round(1, 1)

    assert list(push_rounds(push, 0.001, stop)) == [Round(1, 1)] * 4
    assert pushed == [0, 1, 2, 3]
