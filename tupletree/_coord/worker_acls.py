"""Credentials of workers at ZooKeeper that reach only what belongs to the owner of their topology.

A supervisor that runs workers as their users keeps the cluster's password to itself. From the password it derives two
others, which it gives to a worker:

    shared       of all workers: reads the leadership, and creates below the roots of progress and states
    of an owner  of all workers of a user: reads the nodes of the user's topologies, and writes their errors

Every node is created for the cluster's own credentials as well, so daemons reach what workers create.
"""

from __future__ import annotations  # pure

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from kazoo.security import ACL, Permissions, make_acl, make_digest_acl_credential

WORKER_AUTH: Final = "zookeeper.worker.auth"
"""The entry with a worker's credentials in the configuration from its supervisor. Not a key that a user can set."""

MIN_PASSWORD: Final = 32
"""Characters of a password from which others are derived: a worker could guess a short one from its own."""

_SHARED: Final = "workers"


@dataclass(frozen=True)
class WorkerAcls:
    """The access lists of the nodes that workers use. ``credentials``: the cluster's own, a user and a password."""

    credentials: tuple[str, str]

    def of_reader(self, owner: str) -> list[ACL]:
        """Return the list of a node that workers of ``owner`` read."""
        return [self._everything(), _may(self._of_owner(owner), Permissions.READ)]

    def of_writer(self, owner: str) -> list[ACL]:
        """Return the list of a node that workers of ``owner`` read, write, and have children below."""
        return [self._everything(), _may(self._of_owner(owner), _WRITES)]

    def of_all_workers(self) -> list[ACL]:
        """Return the list of a node that every worker reads."""
        return [self._everything(), _may(self._shared(), Permissions.READ)]

    def of_root(self) -> list[ACL]:
        """Return the list of a node below which every worker creates nodes of its owner, and deletes none."""
        return [self._everything(), _may(self._shared(), Permissions.READ | Permissions.CREATE)]

    def of_worker(self, owner: str) -> dict[str, Any]:
        """Return what a worker of ``owner`` is given as ``WORKER_AUTH``."""
        own = self._of_owner(owner)
        return {"shown": [list(self._shared()), list(own)], "daemons": make_digest_acl_credential(*self.credentials)}

    def _everything(self) -> ACL:
        return _may(self.credentials, Permissions.ALL)

    def _shared(self) -> tuple[str, str]:
        return _SHARED, self._derived("workers")

    def _of_owner(self, owner: str) -> tuple[str, str]:
        return f"owner-{quote(owner, safe='')}", self._derived(f"owner {owner}")

    def _derived(self, name: str) -> str:
        return hmac.digest(self.credentials[1].encode(), f"tupletree zookeeper {name}".encode(), "sha256").hex()


_WRITES: Final = Permissions.READ | Permissions.WRITE | Permissions.CREATE | Permissions.DELETE


def shown_by_worker(auth: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a session with ``WORKER_AUTH`` authenticates with, for kazoo."""
    return [("digest", f"{user}:{password}") for user, password in auth["shown"]]


def created_by_worker(auth: Mapping[str, Any]) -> list[ACL]:
    """Return the access list of the nodes that a worker creates: its owner's workers and the daemons do everything."""
    user, password = auth["shown"][-1]
    return [_may((user, password), Permissions.ALL), _acl(str(auth["daemons"]), Permissions.ALL)]


def _may(credentials: tuple[str, str], permissions: int) -> ACL:
    return _acl(make_digest_acl_credential(*credentials), permissions)


def _acl(digest: str, permissions: int) -> ACL:
    flags = {name: bool(permissions & bit) for name, bit in _BITS.items()}
    return make_acl("digest", digest, **flags)


_BITS: Final = {
    "read": Permissions.READ,
    "write": Permissions.WRITE,
    "create": Permissions.CREATE,
    "delete": Permissions.DELETE,
    "admin": Permissions.ADMIN,
}
