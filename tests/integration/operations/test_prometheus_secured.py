"""A cluster with TLS and tokens under Debian's Prometheus, by the example for it; and certificates that end."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_server
import pytest
from metric_tables import documented, shown
from watched_topologies import word_count

from tupletree._security.current import daemon_keyring
from tupletree.cli.main import main
from tupletree.config import defaults
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.skipif(bool(prometheus_server.MISSING), reason=prometheus_server.MISSING)

ENDS = "tupletree_tls_certificate_expiry_timestamp_seconds"
JOBS = [f"tupletree-{role}" for role in ("acker", "nimbus", "supervisor", "worker", "worker")]
PATIENCE_S = 90


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``tupletree certs`` makes, with certificates for ten days."""
    directory = tmp_path_factory.mktemp("secured") / "tls"
    assert main(["certs", str(directory), "--days", "10"]) == 0
    return directory


@pytest.fixture(scope="module")
def cluster(secrets: Path) -> Iterator[DevCluster]:
    """A cluster whose workers nimbus knows."""
    conf: dict[str, Any] = {
        "tls.ca": str(secrets / "ca.crt"),
        "tls.cert": str(secrets / "cluster.crt"),
        "tls.key": str(secrets / "cluster.key"),
        "security.tokens": True,
        "security.secret.file": str(secrets / "secret"),
    }
    keyring = daemon_keyring({**defaults(), **conf})
    assert keyring is not None
    (secrets / "token").write_text(keyring.issue("prometheus", "user", roles=frozenset({"metrics"})))
    conf["security.token"] = keyring.issue("operator", "user", roles=frozenset({"submit"}))
    with DevCluster(slots=2, conf=conf) as running:
        running.client.submit("words", word_count(), {"topology.workers": 2})
        wait_until(
            lambda: _targets(running, secrets).count("worker") == 2, PATIENCE_S, what="nimbus knows both workers"
        )
        yield running


def _targets(cluster: DevCluster, secrets: Path) -> list[str]:
    """The roles of the processes that Prometheus is to read."""
    found = json.loads(page(cluster, "nimbus", "/api/v1/prometheus/targets", (secrets / "token").read_text()))
    return [one["labels"]["__meta_tupletree_role"] for one in found]


def page(cluster: DevCluster, role: str, path: str, token: str | None) -> str:
    """A page of a process, as whoever has this token gets it."""
    port = next(one.http_port for one in cluster.processes if one.role == role and one.http_port)
    asked = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
    if token is not None:
        asked.add_header("Authorization", f"Bearer {token}")
    trusted = ssl.create_default_context(cafile=str(cluster.conf["tls.ca"]))
    with urllib.request.urlopen(asked, timeout=10, context=trusted) as answer:
        return str(answer.read().decode())


@pytest.mark.nightly
def test_the_example_reads_every_process_of_a_secured_cluster_and_tells_of_certificates_before_they_end(
    cluster: DevCluster, secrets: Path, tmp_path: Path
) -> None:
    nimbus = next(one for one in cluster.processes if one.role == "nimbus")
    alerts = prometheus_server.rules({})
    with prometheus_server.running(tmp_path, nimbus.http_port, alerts, secrets) as prometheus:
        wait_until(lambda: prometheus.targets() == [(job, "up") for job in JOBS], PATIENCE_S, what="all targets are up")

        def told(name: str) -> list[str]:
            firing = prometheus.get("alerts")["alerts"]
            return sorted(one["labels"]["job"] for one in firing if one["labels"]["alertname"] == name)

        wait_until(lambda: told("TupletreeCertificateEndsSoon") == JOBS, PATIENCE_S, what="a warning for each process")
        assert told("TupletreeCertificateEnds") == []
        assert main(["certs", str(secrets), "--days", "1", "--renew"]) == 0
        wait_until(lambda: told("TupletreeCertificateEnds") == JOBS, PATIENCE_S, what="an alert for each process")
        assert main(["certs", str(secrets), "--days", "90", "--renew"]) == 0
        wait_until(
            lambda: told("TupletreeCertificateEnds") == told("TupletreeCertificateEndsSoon") == [],
            PATIENCE_S,
            what="nothing is told of new certificates",
        )
        assert [health for _, health in prometheus.targets()] == ["up"] * len(JOBS)


@pytest.mark.nightly
@pytest.mark.parametrize("role", ["acker", "nimbus", "supervisor", "worker"])
def test_every_process_shows_its_certificate_s_end_as_documented_and_to_nobody_without_a_token(
    cluster: DevCluster, secrets: Path, role: str
) -> None:
    family = shown(page(cluster, role, "/metrics", (secrets / "token").read_text()))[ENDS]
    [row] = [row for row in documented() if row.name == ENDS]
    assert (family.type, family.documentation, [one.labels for one in family.samples]) == (row.type, row.meaning, [{}])
    with pytest.raises(urllib.error.HTTPError, match="401"):
        page(cluster, role, "/metrics", None)


def test_the_token_for_metrics_opens_nothing_else(cluster: DevCluster, secrets: Path) -> None:
    assert "worker" in _targets(cluster, secrets)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        page(cluster, "nimbus", "/api/v1/cluster/configuration", (secrets / "token").read_text())
