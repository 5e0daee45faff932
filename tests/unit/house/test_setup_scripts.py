"""`make setup` on machines that lack things, played with stand-ins for java, apt-get, sudo and python on PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[3] / "deploy" / "setup"
TOOLS = ("sh", "sed", "head", "dirname", "env", "cat", "chmod", "cp")
INSTALLS_JAVA_17 = 'case "$*" in *openjdk-17*) cp "$0-java" "${0%/*}/java";; esac'


class Machine:
    """A PATH with nothing on it but what a test puts there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found
            (path / tool).symlink_to(found)
        self.add("id", "echo 0")

    def add(self, name: str, script: str) -> None:
        (self.path / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.path / name).chmod(0o755)

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PYTHON")}
        environment["POSTGRESQL_LIB"] = str(self.path / "postgresql")
        return subprocess.run(
            [str(self.path / "sh"), str(SETUP / script), *arguments],
            env={**environment, "PATH": str(self.path)},
            cwd=self.path,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def java(version: str) -> str:
    return f"""echo 'openjdk version "{version}" 2025-04-15' >&2"""


def test_a_new_enough_java_is_left_alone(machine: Machine) -> None:
    machine.add("java", java("21.0.2"))
    machine.add("apt-get", "exit 99")
    run = machine.run("java.sh")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize("old", [None, "11.0.22", "1.8.0_402"])
def test_java_is_installed_where_it_may_be(machine: Machine, old: str | None) -> None:
    if old:
        machine.add("java", java(old))
    machine.add("apt-get", INSTALLS_JAVA_17)
    machine.add("apt-get-java", java("17.0.15"))
    run = machine.run("java.sh")
    assert run.returncode == 0, run.stderr
    assert "installing openjdk-17-jre-headless" in run.stdout


def test_without_root_and_sudo_java_is_asked_for_in_one_sentence(machine: Machine) -> None:
    machine.add("id", "echo 1000")
    machine.add("apt-get", INSTALLS_JAVA_17)
    machine.add("apt-get-java", java("17.0.15"))
    run = machine.run("java.sh")
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    assert "sudo apt-get install -y openjdk-17-jre-headless" in run.stderr


def test_sudo_is_used_where_it_asks_for_no_password(machine: Machine) -> None:
    machine.add("id", "echo 1000")
    machine.add("sudo", 'shift; [ "$1" = true ] || exec "$@"')
    machine.add("apt-get", INSTALLS_JAVA_17)
    machine.add("apt-get-java", java("17.0.15"))
    assert machine.run("java.sh").returncode == 0


def test_an_old_java_without_apt_is_named(machine: Machine) -> None:
    machine.add("java", java("11.0.22"))
    run = machine.run("java.sh")
    assert run.returncode == 1
    assert "uses Java 11" in run.stderr


def test_a_python_that_is_too_old_is_passed_over(machine: Machine) -> None:
    machine.add("python3", "exit 1")
    run = machine.run("python.sh", "venv")
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    assert "Python 3.11 or newer is needed" in run.stderr


def test_a_python_without_venv_is_said_to_lack_its_debian_package(machine: Machine) -> None:
    machine.add("python3.11", 'case "$2" in *ensurepip*) exit 1;; *print*) echo python3.11-venv;; esac')
    machine.add("id", "echo 1000")
    run = machine.run("python.sh", "venv")
    assert run.returncode == 1
    assert "sudo apt-get install -y python3.11-venv" in run.stderr
    assert not (machine.path / "venv").exists()


BROKERS = ("rabbitmq-server", "beanstalkd", "nats-server", "mosquitto")
"""They may be there, off PATH, on the machine that runs the tests."""
EXPECTED = {"redis-server", "postgresql", "prometheus", "chromium", "fonts-inter", "iproute2"}


def test_servers_that_are_there_are_left_alone(machine: Machine) -> None:
    machine.add("redis-server", "exit 99")
    (machine.path / "postgresql" / "15" / "bin").mkdir(parents=True)
    machine.add("postgresql/15/bin/initdb", "exit 99")
    for program in (*BROKERS, "prometheus", "promtool", "chromium", "ip"):
        machine.add(program, "exit 99")
    machine.add("apt-get", "exit 99")
    run = machine.run("servers.sh")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_only_the_server_that_is_missing_is_installed(machine: Machine) -> None:
    machine.add("initdb", "exit 99")
    for program in (*BROKERS, "prometheus", "promtool", "chromium", "ip"):
        machine.add(program, "exit 99")
    machine.add("apt-get", 'case "$*" in *postgresql*) exit 99;; esac')
    run = machine.run("servers.sh")
    assert (run.returncode, run.stdout, run.stderr) == (0, "installing redis-server from Debian's packages\n", "")


def test_servers_that_may_not_be_installed_are_asked_for_in_one_sentence_and_no_failure(machine: Machine) -> None:
    machine.add("id", "echo 1000")
    run = machine.run("servers.sh")
    assert run.returncode == 0
    assert run.stderr.count("\n") == 1
    assert "The tests that need it are skipped" in run.stderr
    [command] = re.findall("sudo apt-get install -y (.*)", run.stderr)
    assert set(command.split()) - set(BROKERS) == EXPECTED
