"""The systemd units: systemd takes them, the daemons take their command lines, and a restart does what it must."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
from deployed import DEPLOY, ROLES, check_command

from tupletree.config import load

PROGRAM = "/opt/tupletree/bin/tupletree"


def unit_path(role: str) -> Path:
    return DEPLOY / "systemd" / f"tupletree-{role}.service"


def unit(role: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit_path(role))
    return parser


@pytest.mark.parametrize("role", ROLES)
def test_a_unit_starts_its_daemon_with_its_example(role: str) -> None:
    service = unit(role)["Service"]
    program, *command = service["ExecStart"].split()
    assert program == PROGRAM
    found, arguments = check_command(command)
    assert found == role
    assert arguments.conf == f"/etc/tupletree/{role}.yaml"
    assert arguments.conf in unit_path(role).read_text().partition("[Unit]")[0]
    conf = load(DEPLOY / "conf" / "cluster" / f"{role}.yaml", environ={})
    assert conf["local.dir"] == f"/var/lib/{service['StateDirectory']}"
    assert conf["logs.dir"] == f"/var/log/{service['LogsDirectory']}"


@pytest.mark.parametrize("role", ROLES)
def test_a_unit_restarts_and_is_no_root(role: str) -> None:
    service = unit(role)["Service"]
    assert (service["User"], service["Restart"], service["NoNewPrivileges"]) == ("tupletree", "always", "yes")
    assert service["CapabilityBoundingSet"] == ""
    assert service["RestartPreventExitStatus"] == "2"  # a UsageError


def test_a_supervisors_restart_leaves_its_workers_and_an_acker_has_time_to_drain() -> None:
    supervisor, acker = unit("supervisor")["Service"], unit("acker")["Service"]
    assert supervisor["KillMode"] == "process"
    assert "PrivateTmp" not in supervisor, "workers that run on would lose their /tmp"
    assert (
        load(DEPLOY / "conf" / "cluster" / "supervisor.yaml", environ={})["supervisor.stop.workers.on.shutdown"]
        is False
    )
    # Three rotations of the default message timeout.
    assert int(acker["TimeoutStopSec"]) >= 3 * load(environ={})["topology.message.timeout.secs"]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze not found: apt-get install systemd"
)
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    copies = []
    for role in ROLES:
        copy = tmp_path / unit_path(role).name
        copy.write_text(unit_path(role).read_text().replace(PROGRAM, "/bin/true"))  # it must exist
        copies.append(str(copy))
    said = subprocess.run(["systemd-analyze", "verify", *copies], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")
