"""Whose a topology is, from its record in ZooKeeper."""

from __future__ import annotations

from tupletree._coord.store import Store
from tupletree._security.rights import Acl, acl_of


def whose(store: Store, by: str, named: str) -> Acl | None:
    """By "name", or by id under whatever field it came; None if there is none. Blocks. Raises UnavailableError."""
    if by not in ("name", "port"):
        is_name = named.isprintable() and "/" not in named and named not in ("", ".", "..")  # of a node
        stored = store.topology(named) if is_name else None
        return None if stored is None else acl_of(stored.value)
    found = (stored.value for stored in store.topologies().values() if stored.value.name == named)
    return next((acl_of(record) for record in found), None)
