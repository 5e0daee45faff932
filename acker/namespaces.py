"""Namespaces of trees: who may open trees at this acker without a topology, and how many.

A namespace is served as a topology of one shard, whose clients are its workers; its ledger is an ordinary one. Two
quotas belong to it, both at each acker:

    max_open_trees     an init beyond is refused; its client is told at once. A tree that begins and ends within one
                       message takes no room.
    max_updates_per_s  all clients together; what comes faster is read later, so that the clients' streams fill up

Nothing of a namespace is stored. An acker that restarts has lost the trees, and its id says so to the clients.
"""

from __future__ import annotations  # pure

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tupletree._wire.names import TREES_PREFIX
from tupletree.errors import ConfigError

from .updates import Batch

KEY: Final = "acker.trees.namespaces"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LIMITS: Final = {"max_open_trees": 100_000, "max_updates_per_s": 100_000, "timeout_s": 600.0}
_MAX_TIMEOUT_S: Final = 7 * 86_400
_MAX_NUMBER: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Namespace:
    """The quotas of one namespace. ``users``: who may use it, beside administrators; None: each user who may call."""

    name: str
    max_open_trees: int
    max_updates_per_s: int
    timeout_s: float
    users: frozenset[str] | None = None

    @property
    def topology_id(self) -> str:
        return TREES_PREFIX + self.name


class Quota:
    """The use of a namespace at this acker."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.refused = 0
        self._paid_until_s = 0.0

    def admitted(self, batch: Batch, open_trees: int) -> tuple[Batch, array[int]]:
        """Return a batch without the inits for which there is no room, and the roots of these."""
        room = max(0, self.namespace.max_open_trees - open_trees)
        if len(batch.init_roots) <= room:
            return batch, array("Q")
        kept: list[int] = []
        refused = array("Q")
        for number, value in enumerate(batch.init_values):
            if value == 0 or room > 0:
                kept.append(number)
                room -= value != 0
            else:
                refused.append(batch.init_roots[number])
        self.refused += len(refused)
        admitted = replace(
            batch,
            init_roots=array("Q", [batch.init_roots[number] for number in kept]),
            init_values=array("Q", [batch.init_values[number] for number in kept]),
            init_tasks=array("I", [batch.init_tasks[number] for number in kept]),
        )
        return admitted, refused

    def pause_s(self, updates: int, now_s: float) -> float:
        """Count updates, and return how long to read no more."""
        self._paid_until_s = max(self._paid_until_s, now_s) + updates / self.namespace.max_updates_per_s
        return self._paid_until_s - now_s


def parse_namespaces(value: Mapping[str, Any]) -> dict[str, Namespace]:
    """Return the namespaces of a configuration by name. Raises ConfigError."""
    return {name: _namespace(name, quotas) for name, quotas in value.items()}


def _namespace(name: str, quotas: Any) -> Namespace:
    if not _NAME.fullmatch(name):
        wanted = "at most 100 letters, digits, '.', '_' and '-', the first a letter or a digit"
        raise ConfigError(f"{KEY}: a namespace has a name of {wanted}, not {name[:120]!r}")
    quotas = {} if quotas is None else quotas
    if not isinstance(quotas, Mapping):
        raise ConfigError(f"{KEY}: namespace '{name}' takes a mapping of quotas, such as {{max_open_trees: 1000}}")
    for key in quotas:
        if key not in _LIMITS and key != "users":
            known = ", ".join([*_LIMITS, "users"])
            raise ConfigError(f"{KEY}: namespace '{name}' has no quota {str(key)[:120]!r}; there are {known}")
    numbers = {key: _number(name, key, quotas.get(key, default)) for key, default in _LIMITS.items()}
    users = quotas.get("users")
    if users is not None and not (isinstance(users, list | tuple) and all(isinstance(user, str) for user in users)):
        raise ConfigError(f"{KEY}: users of namespace '{name}' are a list of names or null, for each user who may call")
    return Namespace(
        name,
        int(numbers["max_open_trees"]),
        int(numbers["max_updates_per_s"]),
        float(numbers["timeout_s"]),
        None if users is None else frozenset(users),
    )


def _number(name: str, key: str, value: Any) -> float:
    is_time = key == "timeout_s"
    most = _MAX_TIMEOUT_S if is_time else _MAX_NUMBER
    is_number = isinstance(value, int | float if is_time else int) and not isinstance(value, bool)
    if not is_number or not 0 < value <= most:
        wanted = "a number of seconds" if is_time else "a whole number"
        raise ConfigError(f"{KEY}: {key} of namespace '{name}' takes {wanted} above 0 and up to {most}")
    return float(value)
