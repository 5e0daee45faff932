"""The metrics of a whole cluster, judged by Debian's Prometheus: names, targets, alerts that fire and resolve."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_server
import pytest
import yaml
from metric_tables import documented, shown
from watched_topologies import stateful, transactional, word_count

from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.skipif(bool(prometheus_server.MISSING), reason=prometheus_server.MISSING)

DEPLOY = prometheus_server.ROOT / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
TOPOLOGIES = ("words", "moves", "keeps")
PATIENCE_S = 90
QUEUES = ("tupletree_spout_connected", "tupletree_spout_lag_", "tupletree_spout_outstanding_")
NOT_HERE = (
    "tupletree_drpc_",
    "tupletree_pipeline_",
    "tupletree_windows_",
    "tupletree_keyed_",
    "tupletree_tls_",
    "tupletree_webhook_",
    *QUEUES,
)
"""Metrics of Spark, of windows, of webhooks and of queues, which do not run here (the last two: test_webhooks.py and
test_queue_conformance.py), and of TLS, which test_prometheus_secured.py looks at."""


@pytest.fixture(scope="module")
def hold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file is there, the transactional topology commits nothing."""
    return tmp_path_factory.mktemp("hold") / "hold"


@pytest.fixture(scope="module")
def cluster(hold: Path) -> Iterator[DevCluster]:
    with DevCluster(slots=4, ackers=2) as running:
        running.client.submit("words", word_count(), {"topology.workers": 2})
        timeout = {"topology.message.timeout.secs": 300}  # a commit that is held is not replayed
        running.client.submit("moves", transactional("moves", hold), {"topology.workers": 1, **timeout})
        running.client.submit("keeps", stateful(), {"topology.workers": 1})
        yield running


def pages(cluster: DevCluster) -> dict[str, str]:
    """The /metrics of every daemon and worker, by role and port."""
    found = {}
    for process in cluster.processes:
        if process.http_port and process.role != "zookeeper":
            with urllib.request.urlopen(f"http://127.0.0.1:{process.http_port}/metrics", timeout=10) as page:
                found[f"{process.role}-{process.http_port}"] = page.read().decode()
    return found


def all_families(cluster: DevCluster) -> dict[str, Any]:
    families: dict[str, Any] = {}
    for text in pages(cluster).values():
        families |= shown(text)
    return families


@pytest.fixture(scope="module")
def scraped(cluster: DevCluster) -> dict[str, str]:
    """What all of the cluster shows once everything is at work."""
    signs = (
        "tupletree_worker_complete_latency_seconds_count{",
        "tupletree_transactions_commits_total{",
        "tupletree_checkpoints_duration_seconds_count{",
    )

    def at_work() -> bool:
        text = "\n".join(pages(cluster).values())
        return all(re.search(re.escape(sign) + r".*} [1-9]", text) for sign in signs)

    wait_until(at_work, PATIENCE_S, what="each topology is at work")
    return pages(cluster)


@pytest.mark.nightly
def test_the_names_of_every_daemon_and_worker_are_as_promtool_wants_them(scraped: dict[str, str]) -> None:
    assert {name.rpartition("-")[0] for name in scraped} == {"nimbus", "supervisor", "acker", "worker"}
    assert sum(name.startswith("worker") for name in scraped) == 4
    for name, text in scraped.items():
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", ""), name


@pytest.mark.nightly
def test_rules_and_configuration_are_valid_and_the_rules_pass_their_unit_tests() -> None:
    for arguments in (["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"]):
        subprocess.run(["promtool", *arguments], cwd=DEPLOY / "prometheus", check=True, capture_output=True)
    done = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yml"], cwd=DEPLOY / "prometheus", capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_unit_test_a_summary_a_description_and_a_section_to_read() -> None:
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    alerts = [rule for group in groups for rule in group["rules"]]
    tests = yaml.safe_load((DEPLOY / "prometheus" / "alerts_test.yml").read_text())["tests"]
    for alert in alerts:
        cases = [one["alert_rule_test"][0]["exp_alerts"] for one in tests if one["name"].split()[0] == alert["alert"]]
        assert sorted(map(bool, cases)) == [False, True], alert["alert"]
        assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert alert["annotations"]["runbook_url"] == f"docs/operations.md#{alert['alert'].lower()}"


def names_in(expression: str) -> set[str]:
    """The metrics that an expression names."""
    bare = re.sub(
        r"\{[^}]*\}|\"[^\"]*\"|\b(by|on|group_left|group_right|ignoring|without)\s*\([^)]*\)", " ", expression
    )
    return set(re.findall(r"\b(?:tupletree|process|python)_[a-z_0-9]+\b", bare))


def series_of(families: dict[str, Any]) -> set[str]:
    """Every name that a sample may have."""
    names = set()
    for name, family in families.items():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names |= {name + ending for ending in endings}
    return names


@pytest.mark.parametrize("path", [*DASHBOARDS, DEPLOY / "prometheus" / "alerts.yml"], ids=lambda path: path.stem)
def test_dashboards_and_alerts_name_metrics_that_there_are(scraped: dict[str, str], path: Path) -> None:
    if path.suffix == ".json":
        board = json.loads(path.read_text())
        expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        expressions += [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
        expressions = [re.sub(r"label_values\((.*), \w+\)", r"\1", one) for one in expressions]
    else:
        groups = yaml.safe_load(path.read_text())["groups"]
        expressions = [rule["expr"] for group in groups for rule in group["rules"]]
    named = set().union(*map(names_in, expressions))
    assert len(named) >= 5
    families: dict[str, Any] = {}
    for text in scraped.values():
        families |= shown(text)
    elsewhere = {name for name in named if name.startswith(NOT_HERE)}
    assert elsewhere <= {f"{row.name}{row.suffix}" for row in documented()}
    assert named - elsewhere <= series_of(families)


def test_the_table_of_metrics_is_what_the_cluster_shows(scraped: dict[str, str]) -> None:
    found: dict[tuple[str, str], set[str]] = {}
    for name, text in scraped.items():
        for family in shown(text).values():
            if family.name.startswith("tupletree_") and not family.name.startswith("tupletree_user_"):
                labels = found.setdefault((family.name, family.type), set())
                labels |= {key for sample in family.samples for key in sample.labels} - {"le"}
                row = next((row for row in documented() if row.name == family.name), None)
                assert row is not None, f"docs/metrics.md lacks {family.name}, which {name} shows"
                assert (row.type, row.meaning) == (family.type, family.documentation), row
    written = {(row.name, row.type): set(row.labels) for row in documented()}
    only_written = {key for key in written.keys() - found.keys() if not key[0].startswith(NOT_HERE)}
    assert not only_written
    for key, labels in found.items():
        assert labels <= written[key], key


@pytest.mark.nightly
def test_prometheus_finds_every_process_and_alerts_fire_for_a_killed_acker_and_a_stalled_commit_and_resolve(
    cluster: DevCluster, scraped: dict[str, str], hold: Path, tmp_path: Path
) -> None:
    nimbus = next(one for one in cluster.processes if one.role == "nimbus")
    alerts = prometheus_server.rules({"TupletreeCommitStalled": ("> 300", "> 5")})
    with prometheus_server.running(tmp_path / "prometheus", nimbus.http_port, alerts) as prometheus:
        expected = ["tupletree-acker"] * 2 + ["tupletree-nimbus", "tupletree-supervisor"] + ["tupletree-worker"] * 4
        wait_until(
            lambda: prometheus.targets() == [(job, "up") for job in expected], PATIENCE_S, what="all targets are up"
        )
        wait_until(lambda: _has_seen(prometheus, 2), PATIENCE_S, what="Prometheus has seen two ackers")
        critical = {"TupletreeAckerDown", "TupletreeCommitStalled"}
        assert not critical & prometheus.firing().keys()

        hold.touch()
        cluster.kill("acker", 1)
        wait_until(lambda: critical <= prometheus.firing().keys(), PATIENCE_S, what="both alerts fire")
        firing = prometheus.firing()
        assert firing["TupletreeCommitStalled"]["topology"] == "moves"
        assert firing["TupletreeCommitStalled"]["component"] == "numbers:coordinator"
        assert not {"TupletreeNoLeader", "TupletreeWorkerCrashLoop", "TupletreeCheckpointStalled"} & firing.keys()

        hold.unlink()
        cluster.restart("acker", 1)
        wait_until(lambda: not critical & prometheus.firing().keys(), PATIENCE_S, what="both alerts are resolved")


def _has_seen(prometheus: prometheus_server.Prometheus, ackers: int) -> bool:
    result = prometheus.get("query?query=max(tupletree_nimbus_ackers)")["result"]
    return bool(result) and float(result[0]["value"][1]) == ackers
