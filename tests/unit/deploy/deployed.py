"""What stands below deploy/, and whether a command line in it is one that the daemons take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tupletree._daemon.arguments import daemon_parser
from tupletree.config import KEYS, load

DEPLOY = Path(__file__).parents[3] / "deploy"
ROLES = ("nimbus", "supervisor", "acker", "drpc")
HTTP_PORTS = {role: KEYS[f"{role}.http.port"].default for role in ROLES}
GRPC_PORTS = {role: KEYS[f"{role}.port"].default for role in ROLES}
SLOTS = KEYS["supervisor.slots.ports"].default


def check_command(command: Sequence[str]) -> tuple[str, Any]:
    """The role and the arguments of a daemon's command line without the program. Fails if the daemon refused it."""
    role, *arguments = command
    assert role in ROLES
    return role, daemon_parser(role, "").parse_args(arguments)


def check_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """What the variables set, loaded as a daemon would. Each that begins with TUPLETREE_ must be a key's."""
    known = {key.variable for key in KEYS.values()} | {"TUPLETREE_CONF"}
    assert {name for name in environment if name.startswith("TUPLETREE_")} <= known
    return load(DEPLOY / "conf" / "tupletree.yaml", environ=dict(environment))


def documents(path: Path) -> Iterable[dict[str, Any]]:
    """The YAML documents of a file."""
    return [one for one in yaml.safe_load_all(path.read_text()) if one is not None]
