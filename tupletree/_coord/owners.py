"""Access lists of topologies, from their records in ZooKeeper."""

from __future__ import annotations

from tupletree._coord.store import Store
from tupletree._security.rights import Acl, acl_of


def find_acl(store: Store, by: str, named: str) -> Acl | None:
    """Return the access list of the topology that a call refers to, or None if there is no such topology.

    ``by``: "name" or "port" look up ``named`` as a topology name, any other field as an id. Blocks. Raises
    UnavailableError.
    """
    if by not in ("name", "port"):
        is_name = named.isprintable() and "/" not in named and named not in ("", ".", "..")  # valid as a node name
        stored = store.topology(named) if is_name else None
        return None if stored is None else acl_of(stored.value)
    found = (stored.value for stored in store.topologies().values() if stored.value.name == named)
    return next((acl_of(record) for record in found), None)
