"""The container image's file and the compose file: their grammars, and what they say of ports, commands and users."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import compose_spec
import dockerfile
import pytest
import yaml
from deployed import DEPLOY, GRPC_PORTS, HTTP_PORTS, ROLES, SLOTS, check_command, check_environment

from tupletree._security.exposure import refusal

FOLDER = DEPLOY / "container"
COMMANDS = dockerfile.parse_file(str(FOLDER / "Dockerfile"))
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
DAEMONS = {name: one for name, one in COMPOSE["services"].items() if one["image"] == "tupletree"}


def of(kind: str) -> list[Any]:
    return [command for command in COMMANDS if command.cmd.upper() == kind]


def test_the_image_has_two_stages_and_its_last_user_is_not_root() -> None:
    assert len(of("FROM")) == 2
    (user,) = of("USER")
    assert user.value == ("10001:10001",)
    after = [command.cmd.upper() for command in COMMANDS[COMMANDS.index(user) :]]
    assert "RUN" not in after and "COPY" not in after
    copies = [copy for copy in of("COPY") if copy.start_line > of("FROM")[1].start_line]
    assert [copy.value for copy in copies if copy.flags] == [("/opt/tupletree", "/opt/tupletree")]


def test_the_image_copies_every_package_and_the_build_context_has_it() -> None:
    packages = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    first = [copy.value for copy in of("COPY") if copy.start_line < of("FROM")[1].start_line]
    copied = {source for values in first for source in values[:-1]}
    assert {folder.partition("/")[0] for folder in packages.values()} <= copied
    lines = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    assert lines[0] == "*"
    sources = {source for copy in of("COPY") if not copy.flags for source in copy.value[:-1]}
    assert sources == {line[1:] for line in lines if line.startswith("!")}
    assert all((DEPLOY.parent / source).exists() for source in sources)


def test_packages_of_the_distribution_leave_no_lists_and_no_recommendations() -> None:
    for command in of("RUN"):
        (text,) = command.value
        if "apt-get install" in text:
            assert text.count("apt-get install") == text.count("--no-install-recommends")
            assert "rm -rf /var/lib/apt/lists" in text


def test_the_image_listens_where_the_configuration_says_and_asks_readyz() -> None:
    (exposed,) = of("EXPOSE")
    assert sorted(map(int, exposed.value)) == sorted([*GRPC_PORTS.values(), *HTTP_PORTS.values(), *SLOTS])
    assert of("ENTRYPOINT")[0].value == ("tini", "--", "tupletree")
    assert of("HEALTHCHECK")[0].value[0] == "CMD"
    script = (FOLDER / "healthy.py").read_text()
    assert "/readyz" in script
    ports = {name: int(port) for name, port in re.findall(r'"(TUPLETREE_\w+)": (\d+)', script)}
    assert ports == {f"TUPLETREE_{role.upper()}_HTTP_PORT": HTTP_PORTS[role] for role in ROLES}


PROJECT = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
SPARK = ("pyspark", "pandas")


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9-]", requirement, maxsplit=1)[0].lower()


def wanted(*extras: str) -> list[str]:
    """The requirements of an image with these extras."""
    there = [one for one in PROJECT["dependencies"] if "sys_platform != 'linux'" not in one]
    return [*there, *(one for extra in extras for one in PROJECT["optional-dependencies"][extra])]


def test_every_package_of_the_image_is_pinned() -> None:
    lines = [line for line in (FOLDER / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = dict(line.split("==") for line in lines)
    assert {
        name_of(one) for one in wanted("connect", "kafka", "objectstore", "redis", "rocksdb", "postgres", "server")
    } <= set(pinned)


def test_the_image_without_spark_has_all_requirements_but_those_of_spark() -> None:
    lines = (FOLDER / "without-spark.txt").read_text().splitlines()
    without = [
        one
        for one in wanted("kafka", "objectstore", "redis", "rocksdb", "postgres", "server")
        if name_of(one) not in SPARK
    ]
    assert [line for line in lines if not line.startswith("#")] == without


@pytest.mark.parametrize(
    ("with_spark", "installed"),
    [
        ("1", ["install --no-cache-dir .[connect,kafka,objectstore,redis,rocksdb,postgres,server]"]),
        ("0", ["install --no-cache-dir -r without-spark.txt", "install --no-cache-dir --no-deps ."]),
    ],
)
def test_the_argument_of_the_build_chooses_what_is_installed(
    with_spark: str, installed: list[str], tmp_path: Path
) -> None:
    """The shell runs the command of the image, with programs that note how they are called."""
    [script] = [command.value[0] for command in of("RUN") if "WITH_SPARK" in command.value[0]]
    assert ("WITH_SPARK=1",) in [command.value for command in of("ARG")]
    for name in ("python", "pip"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "{name} $PIP_CONSTRAINT $*"\n')
        program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "WITH_SPARK": with_spark}
    command = ["sh", "-euc", script.replace("/opt/tupletree", str(tmp_path))]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    called = [line for line in done.stdout.splitlines() if line.startswith("pip ")]
    assert called == [f"pip /source/constraints.txt {one}" for one in installed]


def test_compose_takes_the_file() -> None:
    merged = {
        name: {key: value for key, value in one.items() if key != "<<"} for name, one in COMPOSE["services"].items()
    }
    plain = {key: value for key, value in COMPOSE.items() if not key.startswith("x-")} | {"services": merged}
    compose_spec.ComposeSpecification.model_validate(json.loads(json.dumps(plain)))


def test_compose_has_three_zookeepers_and_six_daemons() -> None:
    assert len(COMPOSE["services"]) - len(DAEMONS) == 3
    assert sorted(one["command"][0] for one in DAEMONS.values()) == [
        "acker",
        "drpc",
        "nimbus",
        "nimbus",
        "supervisor",
        "supervisor",
    ]
    servers = {one["environment"]["ZOO_SERVERS"] for name, one in COMPOSE["services"].items() if name not in DAEMONS}
    (ensemble,) = servers
    assert [re.split("[=:]", one)[1] for one in ensemble.split()] == ["zookeeper-1", "zookeeper-2", "zookeeper-3"]


@pytest.mark.parametrize("name", DAEMONS)
def test_a_container_starts_its_daemon(name: str) -> None:
    service = DAEMONS[name]
    role, _ = check_command(service["command"])
    conf = check_environment(service["environment"])
    assert conf["advertise.host"] == name
    assert conf["bind.host"] == "0.0.0.0"
    assert refusal(conf) is None
    assert set(conf["zookeeper.servers"]) < set(COMPOSE["services"])
    assert set(conf["nimbus.seeds"]) < set(DAEMONS)
    assert conf["drpc.servers"] == [name for name, one in DAEMONS.items() if one["command"] == ["drpc"]]
    assert set(service["depends_on"]) == set(conf["zookeeper.servers"])
    known = {*GRPC_PORTS.values(), *HTTP_PORTS.values()}
    assert {int(port.rpartition(":")[2]) for port in service.get("ports", ())} <= known
    if role == "supervisor":
        assert conf["supervisor.stop.workers.on.shutdown"] is True
