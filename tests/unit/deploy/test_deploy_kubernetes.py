"""The Kubernetes manifests: valid against the published schemas, and about the ports, paths and names that exist."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from deployed import DEPLOY, GRPC_PORTS, HTTP_PORTS, ROLES, SLOTS, check_command, check_environment, documents

from tupletree._security.exposure import refusal
from tupletree._sparkcluster.plan import ClusterSpec, check_master, spark_conf
from tupletree.cli.cluster import up
from tupletree.cli.metrics import push_command
from tupletree.cli.pushing.addresses import parse_address
from tupletree.config import load
from tupletree.config.loading import load_explicit, parse_overrides

FOLDER = DEPLOY / "kubernetes"
VERSION = "1.30"
KUSTOMIZATION = next(iter(documents(FOLDER / "kustomization.yaml")))
MANIFESTS = [
    *KUSTOMIZATION["resources"],
    "secret.example.yaml",
    "spark-cluster.example.yaml",
    "metrics-push.example.yaml",
]
OBJECTS = [(name, one) for name in MANIFESTS for one in documents(FOLDER / name)]
CONF = load(FOLDER / "tupletree.yaml", environ={})


def workload(role: str) -> dict[str, Any]:
    return next(
        one for _, one in OBJECTS if one["kind"] in ("StatefulSet", "Deployment") and one["metadata"]["name"] == role
    )


def pod(role: str) -> dict[str, Any]:
    spec: dict[str, Any] = workload(role)["spec"]["template"]["spec"]
    return spec


def container(role: str) -> dict[str, Any]:
    (only,) = pod(role)["containers"]
    return dict(only)


@pytest.mark.parametrize(("name", "one"), OBJECTS, ids=[f"{n}-{o['kind']}-{o['metadata']['name']}" for n, o in OBJECTS])
def test_a_manifest_is_what_its_schema_says(name: str, one: dict[str, Any]) -> None:
    if one["kind"] == "ServiceMonitor":  # a custom resource: what the operator's definition requires of these fields
        assert one["apiVersion"] == "monitoring.coreos.com/v1"
        assert set(one["spec"]) == {"selector", "endpoints"}
        assert all(set(endpoint) <= {"port", "path", "interval"} for endpoint in one["spec"]["endpoints"])
    else:
        kubernetes_validate.validate(one, VERSION, strict=True)


def test_every_file_is_applied_or_an_example() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*MANIFESTS, "kustomization.yaml", "tupletree.yaml"}
    assert KUSTOMIZATION["configMapGenerator"] == [{"name": "tupletree", "files": ["tupletree.yaml"]}]


@pytest.mark.parametrize("role", ROLES)
def test_a_pod_starts_its_daemon_on_the_configured_ports(role: str) -> None:
    found, arguments = check_command(container(role)["args"])
    assert (found, arguments.conf) == (role, "/etc/tupletree/tupletree.yaml")
    check_environment({one["name"]: one.get("value", "10.0.0.1") for one in container(role)["env"]})
    ports = {one["name"]: one["containerPort"] for one in container(role)["ports"]}
    slots = {f"slot-{number}": port for number, port in enumerate(SLOTS)} if role == "supervisor" else {}
    assert ports == {"grpc": GRPC_PORTS[role], "http": HTTP_PORTS[role], **slots}
    mounts = {one["name"]: one["mountPath"] for one in container(role)["volumeMounts"]}
    assert mounts["data"] == CONF["local.dir"]


@pytest.mark.parametrize("role", ROLES)
def test_probes_ask_what_the_daemons_serve(role: str) -> None:
    paths = {kind: container(role)[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert paths["readiness"] == {"path": "/readyz", "port": "http"}
    # A daemon that waits for ZooKeeper is not ready, and must not be killed for it.
    assert paths["startup"] == paths["liveness"] == {"path": "/healthz", "port": "http"}


@pytest.mark.parametrize("role", ROLES)
def test_a_pod_is_restricted_and_only_one_at_a_time_may_go(role: str) -> None:
    assert pod(role)["securityContext"]["runAsNonRoot"] is True
    assert container(role)["securityContext"]["allowPrivilegeEscalation"] is False
    assert container(role)["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    budgets = {one["metadata"]["name"]: one["spec"] for _, one in OBJECTS if one["kind"] == "PodDisruptionBudget"}
    labels = workload(role)["spec"]["template"]["metadata"]["labels"]
    assert budgets[role] == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}


def test_services_lead_to_the_daemons() -> None:
    services = {one["metadata"]["name"]: one["spec"] for _, one in OBJECTS if one["kind"] == "Service"}
    for role in ROLES:
        assert {one["port"] for one in services[role]["ports"]} == {GRPC_PORTS[role], HTTP_PORTS[role]}
        assert services[role]["selector"] == workload(role)["spec"]["selector"]["matchLabels"]
    for role in ("nimbus", "acker", "drpc"):
        assert workload(role)["spec"]["serviceName"] == role
    for role, key in (("nimbus", "nimbus.seeds"), ("drpc", "drpc.servers")):
        replicas = workload(role)["spec"]["replicas"]
        assert CONF[key] == [f"{role}-{number}.{role}:{GRPC_PORTS[role]}" for number in range(replicas)]


def test_clients_reach_nimbus_and_the_drpc_servers() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for _, one in OBJECTS if one["kind"] == "NetworkPolicy"}
    (names,) = policies["clients"]["podSelector"]["matchExpressions"]
    assert names == {"key": "app.kubernetes.io/name", "operator": "In", "values": ["nimbus", "drpc"]}


def test_prometheus_reads_every_daemon() -> None:
    (monitor,) = [one["spec"] for _, one in OBJECTS if one["kind"] == "ServiceMonitor"]
    (names,) = monitor["selector"]["matchExpressions"]
    assert sorted(names["values"]) == sorted(ROLES)


def test_an_acker_may_drain_before_its_pod_is_killed() -> None:
    assert CONF["acker.drain.timeout.secs"] < pod("acker")["terminationGracePeriodSeconds"]


def test_a_supervisors_pod_takes_its_workers_with_it() -> None:
    assert CONF["supervisor.stop.workers.on.shutdown"] is True


def test_the_daemons_agree_to_listen() -> None:
    assert refusal(CONF) is None


def test_the_driver_of_a_cluster_on_spark_is_started_as_the_command_line_says() -> None:
    arguments = container("spark-cluster")["args"]
    with up.make_context("up", arguments[2:]) as context:
        assert arguments[:2] == ["cluster", "up"]
        given = dict(context.params)
    explicit = {**load_explicit(FOLDER / "tupletree.yaml", environ={}), **parse_overrides(given["overrides"])}
    check_master(given["master"], explicit, {})
    sizes = (given["executors"], given["slots"], 2, given["cores"], given["memory"])
    spec = ClusterSpec(given["master"], *sizes, is_embedded="zookeeper.servers" not in explicit, conf=explicit)
    assert given["foreground"] and not spec.is_embedded
    (service,) = [one for name, one in OBJECTS if "spark" in name and one["kind"] == "Service"]
    asked = spark_conf(spec)
    assert asked["spark.driver.host"] == f"{service['metadata']['name']}.{KUSTOMIZATION['namespace']}.svc"
    ports = [int(asked["spark.driver.port"]), int(asked["spark.driver.blockManager.port"])]
    assert [one["port"] for one in service["spec"]["ports"]] == ports
    assert service["spec"]["selector"] == workload("spark-cluster")["spec"]["template"]["metadata"]["labels"]


def test_one_pod_sends_the_metrics() -> None:
    arguments = container("metrics-push")["args"]
    with push_command.make_context("push", arguments[2:]) as context:
        assert arguments[:2] == ["metrics", "push"]
        assert context.params["conf_path"] == "/etc/tupletree/tupletree.yaml"
        assert parse_address(context.params["to"]).scheme == "otlp"
    assert workload("metrics-push")["spec"]["replicas"] == 1
