"""ZooKeeper ACLs: finding nodes that are open to everybody, and closing them.

With ``zookeeper.auth.user``, every node is created with closed ACLs. Nodes older than the credentials stay open until
``tupletree zookeeper secure`` closes them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL, make_digest_acl

from tupletree._coord.session import Session, result, translated
from tupletree._log import event
from tupletree.errors import ForbiddenError

log = logging.getLogger(__name__)

SHARED_FOLDERS: Final = ("$checkpoints", "$states", "$logs")
"""What several topologies have nodes in, below ``transactional.zookeeper.root``."""


def open_nodes(client: KazooClient, root: str, most: int = 10_000) -> list[str]:
    """Return the nodes at and below ``root`` that grant rights to everybody. Checks at most ``most`` nodes."""
    found = []
    with translated(f"reading the ACLs below {root}"):
        for number, path in enumerate(_tree(client, root)):
            if number >= most:
                break
            with suppress(NoNodeError, NoAuthError):  # deleted, or not readable for us: then it is not open either
                acls, _ = result(client.get_acls_async(path))
                if any(acl.id.scheme == "world" for acl in acls):
                    found.append(path)
    return found


def close_nodes(client: KazooClient, root: str, credentials: tuple[str, str]) -> int:
    """Restrict every open node at and below ``root`` to these credentials. Returns the number of nodes closed.

    Safe while the cluster runs, provided that the whole cluster already uses the credentials.
    """
    acl = make_digest_acl(*credentials, all=True)
    closed = 0
    for path in open_nodes(client, root, most=10_000_000):
        with translated(f"closing {path}"), suppress(NoNodeError):
            result(client.set_acls_async(path, [acl]))
            closed += 1
    return closed


def share(client: Session, path: str, acl: Sequence[ACL]) -> None:
    """Give a node an access list, unless it is open to everybody: only ``tupletree zookeeper secure`` closes nodes."""
    found, _ = result(client.get_acls_async(path))
    if not any(one.id.scheme == "world" for one in found):
        result(client.set_acls_async(path, list(acl)))


def share_roots(client: Session, root: str) -> None:
    """Create the roots of progress and states, and let workers with credentials of their own create nodes below them.

    No effect on a cluster without credentials, or on nodes of others.
    """
    if (acls := client.worker_acls) is None or root == "/":
        return
    for path in (root, *(f"{root}/{name}" for name in SHARED_FOLDERS)):
        try:
            with translated(f"preparing {path}"):
                result(client.ensure_path_async(path))
                share(client, path, acls.of_root())
        except ForbiddenError as error:
            event(log, "zookeeper.not_shared", level=logging.WARNING, node=path, cause=error)
            break


def _tree(client: KazooClient, root: str) -> Iterator[str]:
    """Yield every path at and below ``root``, parents first."""
    waiting = [f"/{root.strip('/')}"]
    while waiting:
        path = waiting.pop()
        try:
            children = result(client.get_children_async(path))
        except NoNodeError:
            continue
        except NoAuthError:
            children = []
        yield path
        waiting += [f"{path.rstrip('/')}/{child}" for child in children]
