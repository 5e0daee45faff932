"""Whether nodes in ZooKeeper are closed to strangers, and how they come to be.

With ``zookeeper.auth.user`` everything that is created is closed from its first moment. Nodes that are older than the
credentials stay open until somebody closes them: ``tupletree zookeeper secure``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import make_digest_acl

from tupletree._coord.session import result, translated


def open_nodes(client: KazooClient, root: str, most: int = 10_000) -> list[str]:
    """The nodes at and below ``root`` that grant everybody something; of a large tree only ``most`` are looked at."""
    found = []
    with translated(f"reading who may do what below {root}"):
        for number, path in enumerate(_tree(client, root)):
            if number >= most:
                break
            with suppress(NoNodeError, NoAuthError):  # ours no more, or never: then it is not open either
                acls, _ = result(client.get_acls_async(path))
                if any(acl.id.scheme == "world" for acl in acls):
                    found.append(path)
    return found


def close_nodes(client: KazooClient, root: str, credentials: tuple[str, str]) -> int:
    """Close every open node at and below ``root`` to all but those with these credentials. Returns how many were open.

    It may run while the cluster does, as long as all of the cluster has the credentials already.
    """
    acl = make_digest_acl(*credentials, all=True)
    closed = 0
    for path in open_nodes(client, root, most=10_000_000):
        with translated(f"closing {path}"), suppress(NoNodeError):
            result(client.set_acls_async(path, [acl]))
            closed += 1
    return closed


def _tree(client: KazooClient, root: str) -> Iterator[str]:
    """Every path at and below ``root``, parents first."""
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
