"""Access lists of topologies and blobs, from their records in ZooKeeper; of removed topologies, from the history."""

from __future__ import annotations

from tupletree._blobs import key_fault
from tupletree._coord.store import Store
from tupletree._security.rights import Acl, acl_of, acl_of_blob, acl_of_past


def find_acl(store: Store, by: str, named: str) -> Acl | None:
    """Return the access list of the topology or the blob that a call refers to, or None if it does not exist.

    ``by``: "key" looks up a blob, "name" and "port" a topology that exists by name, any other field a topology that
    exists or is in the history by id. Blocks. Raises UnavailableError.
    """
    if by == "key":
        blobs = [] if key_fault(named) else store.blobs_of([named]).values()
        return next((acl_of_blob(one.value) for one in blobs), None)
    if by not in ("name", "port"):
        is_name = named.isprintable() and "/" not in named and named not in ("", ".", "..")  # valid as a node name
        if not is_name:
            return None
        stored = store.topology(named)
        if stored is not None:
            return acl_of(stored.value)
        past = store.past_topology(named)
        return None if past is None else acl_of_past(past.value)
    found = (stored.value for stored in store.topologies().values() if stored.value.name == named)
    return next((acl_of(record) for record in found), None)
