"""A real Prometheus for tests: its own directory and port, our rules with shorter times; it ends with the test."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tupletree.testing import wait_until

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy" / "prometheus"

MISSING = next((f"there is no {name}" for name in ("prometheus", "promtool") if shutil.which(name) is None), "")


def rules(expressions: dict[str, tuple[str, str]]) -> str:
    """The project's alerts with short times: ``for`` is a second, and what ``expressions`` replaces in an alert's
    expression, which must be there, is a threshold in seconds. All else stays as it is."""
    loaded = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    for group in loaded["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = "1s"
            if rule["alert"] in expressions:
                old, new = expressions[rule["alert"]]
                assert rule["expr"].count(old) == 1, rule["expr"]
                rule["expr"] = rule["expr"].replace(old, new)
    return str(yaml.safe_dump(loaded, sort_keys=False))


class Prometheus:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self._url + path, timeout=10) as page:
            return json.load(page)["data"]

    def targets(self) -> list[tuple[str, str]]:
        """(job, health) of each target, sorted."""
        return sorted((one["labels"]["job"], one["health"]) for one in self.get("targets")["activeTargets"])

    def firing(self) -> dict[str, dict[str, str]]:
        """The labels of each alert that fires, by its name."""
        alerts = self.get("alerts")["alerts"]
        return {one["labels"]["alertname"]: one["labels"] for one in alerts if one["state"] == "firing"}


@contextmanager
def running(directory: Path, nimbus_http_port: int, alerts: str, secrets: Path | None = None) -> Iterator[Prometheus]:
    """Prometheus with the project's scrape configuration, asked at this nimbus, once a second.

    ``secrets``: a directory with ``ca.crt`` and ``token``, for the configuration that is for TLS and tokens.
    """
    directory.mkdir(parents=True, exist_ok=True)
    config = (DEPLOY / ("prometheus.yml" if secrets is None else "prometheus-secured.yml")).read_text()
    assert "://127.0.0.1:8080/" in config
    config = config.replace("://127.0.0.1:8080/", f"://127.0.0.1:{nimbus_http_port}/")
    config = config.replace("/etc/prometheus/tupletree/", f"{secrets}/")
    config = re.sub(r"(interval): 10s", r"\1: 1s", config)
    (directory / "prometheus.yml").write_text(config)
    (directory / "alerts.yml").write_text(alerts)
    subprocess.run(["promtool", "check", "config", directory / "prometheus.yml"], check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(["prometheus", *arguments], stdout=log, stderr=log)
    server = Prometheus(port)

    def answers() -> bool:
        assert process.poll() is None, (directory / "log").read_text()
        try:
            return bool(server.get("status/runtimeinfo"))
        except OSError:
            return False

    try:
        wait_until(answers, 60, what="Prometheus answers")
        yield server
    finally:
        process.kill()
        process.wait()
