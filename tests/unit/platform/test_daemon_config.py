"""The configuration that the daemons have in common: they read it alike."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tupletree._daemon.config import DaemonConfig
from tupletree.acker.config import AckerConfig
from tupletree.config import defaults
from tupletree.nimbus.config import NimbusConfig
from tupletree.supervisor.config import SupervisorConfig


def configs(**changes: object) -> list[DaemonConfig]:
    conf = {**defaults(), **{name.replace("_", "."): value for name, value in changes.items()}}
    return [kind.from_conf(conf) for kind in (AckerConfig, NimbusConfig, SupervisorConfig)]


@pytest.mark.parametrize(
    ("local_dir", "logs_dir", "local_path", "logs_path"),
    [
        ("~/data", None, "/home/me/data", "/home/me/data/logs"),
        ("data", "../logs", "{cwd}/data", "{parent}/logs"),
        ("/data/", "~/logs", "/data", "/home/me/logs"),
        ("$HOME/data", None, "{cwd}/$HOME/data", "{cwd}/$HOME/data/logs"),  # variables are left to the shell
    ],
)
def test_paths_are_absolute(
    local_dir: str,
    logs_dir: str | None,
    local_path: str,
    logs_path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(tmp_path)
    for config in configs(local_dir=local_dir, logs_dir=logs_dir):
        found = config.local_dir, config.logs_dir
        assert found == tuple(path.format(cwd=tmp_path, parent=tmp_path.parent) for path in (local_path, logs_path))


@pytest.mark.parametrize(
    ("settings", "advertised"),
    [
        ({}, "127.0.0.1"),
        ({"bind_host": "10.0.0.7"}, "10.0.0.7"),
        ({"bind_host": "0.0.0.0"}, socket.gethostname()),
        ({"bind_host": "::", "advertise_host": "daemon.example"}, "daemon.example"),
    ],
)
def test_the_advertised_host(settings: dict[str, str], advertised: str) -> None:
    assert [config.host for config in configs(**settings)] == [advertised] * 3


def test_each_daemon_has_the_ports_of_its_role() -> None:
    ports = [(config.grpc_port, config.http_port) for config in configs()]
    assert ports == [(6640, 6641), (6627, 8080), (6628, 8001)]
