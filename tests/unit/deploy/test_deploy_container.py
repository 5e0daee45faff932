"""The container image's file and the compose file: their grammars, and what they say of ports, commands and users."""

from __future__ import annotations

import json
import re
import tomllib
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


def test_every_package_of_the_image_is_pinned() -> None:
    lines = [line for line in (FOLDER / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = dict(line.split("==") for line in lines)
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(one for name in ("connect", "kafka", "redis", "postgres", "server") for one in extras[name]),
    ]
    there = [one for one in wanted if "sys_platform != 'linux'" not in one]
    names = {re.split(r"[^A-Za-z0-9-]", one, maxsplit=1)[0].lower() for one in there}
    assert names <= set(pinned)


def test_compose_takes_the_file() -> None:
    merged = {
        name: {key: value for key, value in one.items() if key != "<<"} for name, one in COMPOSE["services"].items()
    }
    plain = {key: value for key, value in COMPOSE.items() if not key.startswith("x-")} | {"services": merged}
    compose_spec.ComposeSpecification.model_validate(json.loads(json.dumps(plain)))


def test_compose_has_three_zookeepers_and_five_daemons() -> None:
    assert len(COMPOSE["services"]) - len(DAEMONS) == 3
    assert sorted(one["command"][0] for one in DAEMONS.values()) == [
        "acker",
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
    assert set(service["depends_on"]) == set(conf["zookeeper.servers"])
    known = {*GRPC_PORTS.values(), *HTTP_PORTS.values()}
    assert {int(port.rpartition(":")[2]) for port in service.get("ports", ())} <= known
    if role == "supervisor":
        assert conf["supervisor.stop.workers.on.shutdown"] is True
