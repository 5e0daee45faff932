"""The ScaledObject of docs/guides/autoscaling.md names a Deployment, a REST path and a field that exist."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import yaml
from deployed import DEPLOY, documents

from tupletree.nimbus.web.endpoint import PREFIX
from tupletree.nimbus.web.routes import ENDPOINTS

GUIDE = DEPLOY.parent / "docs" / "guides" / "autoscaling.md"


def scaled_object() -> dict[str, Any]:
    (block,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return dict(yaml.safe_load(block))


def test_it_scales_the_supervisors_by_their_slots() -> None:
    spec = scaled_object()["spec"]
    manifest = DEPLOY / "kubernetes" / "supervisor.yaml"
    (supervisor,) = [one for one in documents(manifest) if one["kind"] == "Deployment"]
    assert spec["scaleTargetRef"]["name"] == supervisor["metadata"]["name"]
    (container,) = supervisor["spec"]["template"]["spec"]["containers"]
    slots = [one for one in container["ports"] if one["name"].startswith("slot-")]
    assert spec["triggers"][0]["metadata"]["targetValue"] == str(len(slots))


def test_it_reads_a_field_that_the_path_returns() -> None:
    (trigger,) = scaled_object()["spec"]["triggers"]
    url = urlsplit(trigger["metadata"]["url"])
    service, namespace, _ = str(url.hostname).split(".")
    services = {one["metadata"]["name"]: one for one in documents(DEPLOY / "kubernetes" / "services.yaml")}
    assert (url.port or 80) in [port["port"] for port in services[service]["spec"]["ports"]]
    (space,) = documents(DEPLOY / "kubernetes" / "namespace.yaml")
    assert space["metadata"]["name"] == namespace == scaled_object()["metadata"]["namespace"]
    (endpoint,) = [
        one
        for one in ENDPOINTS
        if one.method == "GET" and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", PREFIX + one.path), url.path)
    ]
    assert endpoint.path == "/topology/{id}/autoscale"
    assert endpoint.reply[trigger["metadata"]["valueLocation"]] == "integer"
