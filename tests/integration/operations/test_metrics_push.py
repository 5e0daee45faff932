"""``tupletree metrics push`` against a cluster, with real receivers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from metric_receivers import Otlp, Statsd, pushing
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tupletree import BasicBolt, Spout, TopologyBuilder
from tupletree._security.current import daemon_keyring
from tupletree.cli.main import main
from tupletree.config import defaults
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

PATIENCE_S = 60
WANTED = 500
EXECUTED = "tupletree_worker_executed_tuples_total"


class Numbers(Spout):
    """Emits the numbers below ``WANTED``, and then nothing."""

    outputs = ("number",)

    def setup(self) -> None:
        self.left = iter(range(WANTED))

    def next_tuple(self) -> None:
        for number in self.left:
            self.collector.emit([number])
            return


class Sink(BasicBolt):
    def setup(self) -> None:
        self.sizes = self.context.register_histogram("sizes", "Sizes of numbers.", [10, 100])

    def execute(self, tup: Any, collector: Any) -> None:
        self.sizes.observe(tup["number"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2) as running:
        yield running


def http_port(cluster: DevCluster) -> int:
    return next(one.http_port for one in cluster.processes if one.role == "nimbus")


def submit(cluster: DevCluster, name: str) -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("sink", Sink()).shuffle_grouping("numbers")
    cluster.client.submit(name, builder.create_topology())


def test_statsd_gets_exactly_what_a_worker_counted_and_a_last_time_at_sigterm(
    cluster: DevCluster, tmp_path: Path
) -> None:
    statsd = Statsd()
    to = f"statsd://127.0.0.1:{statsd.port}"
    try:
        with pushing(tmp_path, http_port(cluster), "--to", to, "--every", "200ms", "--job", "prod") as pusher:
            wait_until(lambda: statsd.lines, PATIENCE_S, what="the first lines")
            submit(cluster, "counted")
            tags = {"topology": "counted", "component": "sink", "job": "prod-worker"}
            wait_until(lambda: statsd.total(EXECUTED, **tags) == WANTED, PATIENCE_S, what="all tuples are counted")
            wait_until(
                lambda: statsd.total("tupletree_user_sizes_count", **tags) == WANTED, PATIENCE_S, what="the histogram"
            )
            assert statsd.total("tupletree_user_sizes_sum", **tags) == sum(range(WANTED))
            assert pusher.terminate() == 0
            assert (pusher.output(), pusher.errors()) == (f"sending metrics to {to} each 200ms\n", "")
    finally:
        statsd.close()
    assert statsd.total(EXECUTED, **tags) == WANTED
    assert 0 < statsd.longest <= 1432
    jobs = {line.tags["job"] for line in statsd.lines}
    assert jobs == {"prod-nimbus", "prod-supervisor", "prod-acker", "prod-worker"}
    memory = [line for line in statsd.lines if line.name == "process_resident_memory_bytes"]
    assert {line.tags.get("topology") for line in memory if line.tags["job"] == "prod-worker"} == {"counted"}


def _points(requests: list[ExportMetricsServiceRequest], name: str) -> list[Any]:
    metrics = [
        metric
        for request in requests
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
    ]
    return [point for metric in metrics for point in (*metric.sum.data_points, *metric.histogram.data_points)]


def test_otlp_gets_cumulative_counters_also_from_a_receiver_that_was_away(cluster: DevCluster, tmp_path: Path) -> None:
    submit(cluster, "shown")
    receiver = Otlp()
    to = f"otlp://127.0.0.1:{receiver.port}"
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b"}
    with pushing(tmp_path, http_port(cluster), "--to", to, "--every", "200ms", **headers) as pusher:

        def has_all(one: Otlp) -> bool:
            return any(
                point.as_double == WANTED
                and {"component": "sink", "topology": "shown"}.items() <= attributes(point).items()
                for point in _points(list(one.requests), EXECUTED)
            )

        wait_until(lambda: has_all(receiver), PATIENCE_S, what="all tuples are counted")
        receiver.reply.partial_success.rejected_data_points = 2
        receiver.reply.partial_success.error_message = "too old"
        wait_until(lambda: "too old" in pusher.errors(), PATIENCE_S, what="rejected values are told")
        receiver.close()
        wait_until(lambda: "does not answer" in pusher.errors(), PATIENCE_S, what="the receiver is away")
        second = Otlp(receiver.port)
        try:
            wait_until(lambda: has_all(second), PATIENCE_S, what="the counters are sent again")
            assert pusher.terminate() == 0
        finally:
            second.close()
        rejecting, away, *back = pusher.errors().splitlines()
        where = f"tupletree: the receiver at {to}/v1/metrics"
        assert rejecting == f"{where} does not take all values: 2 of them rejected: too old"
        assert away.startswith(f"{where} does not answer: ")  # refused, or broken off
        assert back == [f"{where} takes values again", "tupletree: the receiver answers again"]
    services = {f"tupletree-{role}" for role in ("nimbus", "supervisor", "acker", "worker")}
    assert receiver.services() == services
    assert receiver.headers[0]["api-key"] == "a b"
    points = [one for one in _points(receiver.requests, EXECUTED) if attributes(one)["topology"] == "shown"]
    assert all(0 < one.start_time_unix_nano < one.time_unix_nano for one in points)
    assert len({one.start_time_unix_nano for one in points}) == 1
    sizes = [one for one in _points(receiver.requests, "tupletree_user_sizes") if one.count == WANTED]
    assert (list(sizes[-1].explicit_bounds), list(sizes[-1].bucket_counts)) == ([10, 100], [11, 90, 399])


def attributes(point: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}


def test_once_sends_and_says_so(cluster: DevCluster, capfd: pytest.CaptureFixture[str]) -> None:
    receiver, statsd = Otlp(), Statsd()
    options = ["--nimbus", "127.0.0.1", "-c", f"nimbus.http.port={http_port(cluster)}", "--once"]
    try:
        assert main(["metrics", "push", "--to", f"otlp://127.0.0.1:{receiver.port}", *options, "--json"]) == 0
        told = json.loads(capfd.readouterr().out)
        assert told["fault"] is None
        assert told["processes"] == len(
            {
                resource.resource.SerializeToString()
                for request in receiver.requests
                for resource in request.resource_metrics
            }
        )
        assert main(["metrics", "push", "--to", f"statsd://127.0.0.1:{statsd.port}", "--tags", "none", *options]) == 0
        assert f"processes to statsd://127.0.0.1:{statsd.port}" in capfd.readouterr().out
        wait_until(lambda: statsd.lines, PATIENCE_S, what="lines")
        receiver.status = 404
        assert main(["metrics", "push", "--to", f"otlp://127.0.0.1:{receiver.port}", *options]) == 1
        assert "answers with status 404; is it one of OTLP over HTTP, and the path right?" in capfd.readouterr().err
    finally:
        receiver.close()
        statsd.close()
    assert {line.kind for line in statsd.lines} == {"g"}
    assert any(line.name.startswith("tupletree.nimbus.") for line in statsd.lines)
    assert main(["metrics", "push", "--to", f"statsd://127.0.0.1:{statsd.port}", *options]) == 1
    assert f"no statsd server listens at statsd://127.0.0.1:{statsd.port}: Connection refused" in capfd.readouterr().err


def test_a_secured_cluster_is_read_with_the_role_for_metrics(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tls = tmp_path / "tls"
    assert main(["certs", str(tls), "--days", "10"]) == 0
    conf: dict[str, Any] = {
        "tls.ca": str(tls / "ca.crt"),
        "tls.cert": str(tls / "cluster.crt"),
        "tls.key": str(tls / "cluster.key"),
        "security.tokens": True,
        "security.secret.file": str(tls / "secret"),
    }
    keyring = daemon_keyring({**defaults(), **conf})
    token = tmp_path / "token"
    token.write_text(keyring.issue("push", "user", roles=frozenset({"metrics"})))
    token.chmod(0o600)
    conf["security.token"] = keyring.issue("operator", "user", roles=frozenset({"submit"}))
    receiver = Otlp()
    to = ["--to", f"otlp://127.0.0.1:{receiver.port}", "--once", "-c", f"tls.ca={tls / 'ca.crt'}"]
    try:
        with DevCluster(slots=1, conf=conf) as cluster:
            command = ["metrics", "push", "--nimbus", "127.0.0.1", "-c", f"nimbus.http.port={http_port(cluster)}", *to]
            assert main([*command, "-c", f"security.token.file={token}"]) == 0
            assert receiver.services() == {f"tupletree-{role}" for role in ("nimbus", "supervisor", "acker")}
            capfd.readouterr()
            assert main(command) == 1
            assert "refuses with status 401: the key security.token needs a token" in capfd.readouterr().err
    finally:
        receiver.close()


def test_wrong_options_and_a_cluster_that_is_away_are_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments, sentence, status in [
        (["--to", "otlp://a", "--tags", "none"], "--tags is for statsd://", 2),
        (["--to", "otlp://a", "--job", "a b"], "--job takes at most 100 letters", 2),
        (["--to", "statsd://a", "--every", "x"], "--every takes a time such as 500ms, 10s or 2m, not 'x'", 2),
        (["--to", "statsd://a", "--once", "-c", "nimbus.http.port=1"], "nimbus at 127.0.0.1:1 does not answer", 1),
    ]:
        assert main(["metrics", "push", "--nimbus", "127.0.0.1", *arguments]) == status
        [line] = capfd.readouterr().err.splitlines()
        assert sentence in line


def test_a_process_that_does_not_answer_is_told_once_and_the_others_are_sent(tmp_path: Path) -> None:
    statsd = Statsd()
    with DevCluster(slots=1) as cluster:
        to = ["--to", f"statsd://127.0.0.1:{statsd.port}", "--every", "100ms", "--json"]
        with pushing(tmp_path, http_port(cluster), *to) as pusher:
            try:
                wait_until(lambda: statsd.lines, PATIENCE_S, what="the first lines")
                acker = next(one for one in cluster.processes if one.role == "acker")
                cluster.kill("acker")
                wait_until(lambda: "does not answer" in pusher.errors(), PATIENCE_S, what="the acker is away")
                rounds = len(pusher.output().splitlines())
                wait_until(lambda: len(pusher.output().splitlines()) > rounds + 5, PATIENCE_S, what="further rounds")
                assert pusher.terminate() == 0
            finally:
                statsd.close()
        [told] = pusher.errors().splitlines()
        assert told.startswith(f"tupletree: acker at 127.0.0.1:{acker.http_port} does not answer: ")
        assert told.endswith("; its metrics are left out")
        assert all(json.loads(line)["fault"] is None for line in pusher.output().splitlines())
