"""The systemd units: systemd takes them, the daemons take their command lines, and a restart does what it must."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
from deployed import DEPLOY, ROLES, check_command

from tupletree.cli.metrics import push_command
from tupletree.cli.pushing.addresses import parse_address
from tupletree.config import load
from tupletree.supervisor.accounts import CAPABILITIES
from tupletree.supervisor.cgroups import LEAF

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


def test_the_drop_in_delegates_control_groups_and_starts_the_supervisor_in_a_child() -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "systemd" / "tupletree-supervisor.service.d" / "cgroups.conf")
    service = parser["Service"]
    assert (service["Delegate"], service["DelegateSubgroup"]) == ("cpu memory", LEAF)
    assert service["ProtectControlGroups"] == "no", "the group's files are written"


def test_the_unit_that_sends_metrics_runs_the_command_and_sends_a_last_time() -> None:
    service = unit("metrics-push")["Service"]
    program, *command = service["ExecStart"].split()
    assert (program, command[:2]) == (PROGRAM, ["metrics", "push"])
    with push_command.make_context("push", command[2:]) as context:
        assert context.params["conf_path"] == "/etc/tupletree/client.yaml"
        assert parse_address(context.params["to"]).scheme == "otlp"
    assert (service["User"], service["KillSignal"], service["RestartPreventExitStatus"]) == (
        "tupletree",
        "SIGTERM",
        "2",
    )


def test_what_a_supervisor_adds_to_run_workers_as_users_is_what_it_asks_for(tmp_path: Path) -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    path = DEPLOY / "systemd" / "tupletree-supervisor-as-users.conf"
    parser.read(path)
    assert parser["Service"]["User"] == "root"
    assert set(parser["Service"]["CapabilityBoundingSet"].split()) == CAPABILITIES.keys()
    lines = [line.removeprefix("#   ") for line in path.read_text().splitlines() if line.startswith("#   ")]
    own = tmp_path / "own.yaml"
    own.write_text("\n".join(lines))
    conf = load(own, environ={})
    assert conf["supervisor.run.worker.as.user"] is True
    assert conf["logs.dir"] == f"/var/log/{parser['Service']['LogsDirectory']}"


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze not found: apt-get install systemd"
)
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    copies = []
    for role in (*ROLES, "metrics-push"):
        copy = tmp_path / unit_path(role).name
        copy.write_text(unit_path(role).read_text().replace(PROGRAM, "/bin/true"))  # it must exist
        copies.append(str(copy))
    said = subprocess.run(["systemd-analyze", "verify", *copies], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")
