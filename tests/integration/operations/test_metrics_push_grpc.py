"""``tupletree metrics push`` by OTLP over gRPC, with real receivers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from metric_receivers import OtlpGrpc, pushing, service_names

from tupletree.cli.main import main
from tupletree.testing import DevCluster, wait_until

PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=1) as running:
        yield running


def http_port(cluster: DevCluster) -> int:
    return next(one.http_port for one in cluster.processes if one.role == "nimbus")


def push_once(cluster: DevCluster, to: str) -> int:
    return main(
        [
            "metrics",
            "push",
            "--nimbus",
            "127.0.0.1",
            "-c",
            f"nimbus.http.port={http_port(cluster)}",
            "--to",
            to,
            "--once",
        ]
    )


ALL = {"tupletree-nimbus", "tupletree-supervisor", "tupletree-acker"}


@pytest.mark.nightly
def test_metrics_reach_a_receiver_that_was_away(cluster: DevCluster, tmp_path: Path) -> None:
    receiver = OtlpGrpc()
    to = f"otlp+grpc://127.0.0.1:{receiver.port}"
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "Api-Key=a%20b"}
    with pushing(tmp_path, http_port(cluster), "--to", to, "--every", "200ms", **headers) as pusher:
        wait_until(lambda: service_names(receiver.requests) == ALL, PATIENCE_S, what="all processes are sent")
        assert receiver.metadata[0]["api-key"] == "a b"
        assert not isinstance(receiver.reply, grpc.StatusCode)
        receiver.reply.partial_success.rejected_data_points = 2
        receiver.reply.partial_success.error_message = "too old"
        where = f"tupletree: the receiver at {to}"
        told = f"{where} does not take all values: 2 of them rejected: too old\n"
        wait_until(lambda: told in pusher.errors(), PATIENCE_S, what="rejected values are told")
        receiver.close()
        wait_until(lambda: f"{where} does not answer: " in pusher.errors(), PATIENCE_S, what="the receiver is away")
        second = OtlpGrpc(receiver.port)
        try:
            wait_until(lambda: service_names(second.requests) == ALL, PATIENCE_S, what="all processes are sent again")
            wait_until(lambda: "the receiver answers again" in pusher.errors(), PATIENCE_S, what="that is told")
            assert pusher.terminate() == 0
        finally:
            second.close()


def test_the_metrics_are_those_of_http(cluster: DevCluster) -> None:
    receiver = OtlpGrpc()
    try:
        assert push_once(cluster, f"otlp+grpc://127.0.0.1:{receiver.port}") == 0
    finally:
        receiver.close()
    assert service_names(receiver.requests) == ALL
    names = {metric.name for one in receiver.requests[0].resource_metrics[0].scope_metrics for metric in one.metrics}
    assert "process_resident_memory_bytes" in names


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "answers UNAUTHENTICATED: not now"),
        (grpc.StatusCode.UNIMPLEMENTED, "answers UNIMPLEMENTED: not now; is it one of OTLP over gRPC?"),
        (grpc.StatusCode.UNAVAILABLE, "does not answer: not now"),
    ],
)
def test_refusals_are_one_sentence(
    cluster: DevCluster, capfd: pytest.CaptureFixture[str], status: grpc.StatusCode, sentence: str
) -> None:
    receiver = OtlpGrpc()
    receiver.reply = status
    to = f"otlp+grpc://127.0.0.1:{receiver.port}"
    try:
        assert push_once(cluster, to) == 1
    finally:
        receiver.close()
    assert f"tupletree: the receiver at {to} {sentence}\n" in capfd.readouterr().err


def test_nobody_listens(cluster: DevCluster, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        to = f"otlp+grpc://127.0.0.1:{unused.getsockname()[1]}"
        assert push_once(cluster, to) == 1
    assert f"tupletree: the receiver at {to} does not answer: connection refused\n" in capfd.readouterr().err


def test_tls_trusts_the_authorities_of_the_system(
    cluster: DevCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["certs", str(tmp_path / "tls"), "--days", "10"]) == 0
    receiver = OtlpGrpc(tls=tmp_path / "tls")
    to = f"otlps+grpc://127.0.0.1:{receiver.port}"
    try:
        capfd.readouterr()
        assert push_once(cluster, to) == 1
        sentence = "the TLS handshake failed; is its certificate signed by an authority that this system trusts?"
        assert f"tupletree: the receiver at {to} does not answer: {sentence}\n" in capfd.readouterr().err
        plain = f"otlp+grpc://127.0.0.1:{receiver.port}"
        assert push_once(cluster, plain) == 1
        assert "does it expect TLS (otlps+grpc://)?" in capfd.readouterr().err
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls" / "ca.crt"))
        assert push_once(cluster, to) == 0
    finally:
        receiver.close()
    assert service_names(receiver.requests) == ALL
