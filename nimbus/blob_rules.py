"""Rules of blobs, the files for workers: what may be stored, named by a topology, and deleted."""

from __future__ import annotations  # pure

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from tupletree._blobs import BLOB_MAP, BlobUse, key_fault, uses_in
from tupletree._limits import name_fault, shown
from tupletree._security.rights import Principal, acl_of, acl_of_blob, may_read
from tupletree.errors import NameInUseError, NotFoundError, UsageError
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from .leader.lifecycle import KILLED
from .updates import needed_versions, versions_of

MAX_USERS: Final = 100
MAX_BLOBS: Final = 10_000
"""Blobs of a cluster: supervisors and nimbuses watch the record of each."""

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def check_blob_header(header: rpc.BlobHeader, max_bytes: int) -> None:
    """Reject an upload that cannot succeed. Raises UsageError."""
    if fault := key_fault(header.key):
        raise UsageError(f"the key of a blob {fault}")
    if not _SHA256.fullmatch(header.sha256):
        raise UsageError(f"the blob's sha256 is 64 hexadecimal digits, not {shown(header.sha256)}")
    if not 0 < header.size <= max_bytes:
        raise UsageError(
            f"blob '{header.key}' has {header.size} bytes; the cluster accepts 1 to {max_bytes} (nimbus.max.blob.bytes)"
        )
    if header.owner and (fault := name_fault(header.owner)):
        raise UsageError(f"the owner of a blob {fault}")
    for users in (header.users, header.readonly_users):
        if len(users) > MAX_USERS:
            raise UsageError(f"blob '{header.key}' has {len(users)} users; the limit is {MAX_USERS}")
        for user in users:
            if fault := name_fault(user):
                raise UsageError(f"a user of a blob {fault}")


def first_version(header: rpc.BlobHeader, blobs: Mapping[str, pb.BlobRecord], now_unix_s: float) -> pb.BlobRecord:
    """Return the record of a new blob. Raises NameInUseError if its key is taken, and UsageError."""
    key = header.key
    if key in blobs:
        raise NameInUseError(
            f"a blob '{key}' exists already: 'tupletree blob update {key} FILE' gives it another content"
        )
    if len(blobs) >= MAX_BLOBS:
        raise UsageError(f"the cluster has {len(blobs)} blobs already, the maximum; delete some first")
    return pb.BlobRecord(
        key=key,
        version=1,
        sha256=header.sha256,
        bytes=header.size,
        owner=header.owner,
        created_unix_s=now_unix_s,
        updated_unix_s=now_unix_s,
        users=sorted(set(header.users)),
        readonly_users=sorted(set(header.readonly_users)),
    )


def next_version(header: rpc.BlobHeader, blobs: Mapping[str, pb.BlobRecord], now_unix_s: float) -> pb.BlobRecord:
    """Return the record of a blob with other content; the same record if the content is the same.

    Raises NotFoundError, and UsageError if the header names users, who are settled when a blob is put.
    """
    if header.users or header.readonly_users:
        raise UsageError(f"blob '{header.key}': its users are settled when it is put")
    record = pb.BlobRecord()
    record.CopyFrom(found(header.key, blobs))
    if record.sha256 != header.sha256:
        record.version += 1
        record.sha256, record.bytes, record.updated_unix_s = header.sha256, header.size, now_unix_s
    return record


def found(key: str, blobs: Mapping[str, pb.BlobRecord]) -> pb.BlobRecord:
    """Return the record of a blob. Raises NotFoundError."""
    if key not in blobs:
        raise NotFoundError(f"there is no blob {shown(key)}; 'tupletree blob list' shows those that there are")
    return blobs[key]


def check_uses(
    name: str,
    uses: Iterable[BlobUse],
    blobs: Mapping[str, pb.BlobRecord],
    who: Principal | None,
    admins: Collection[str],
) -> None:
    """Reject a topology that names a blob which does not exist, or which ``who`` may not read. Raises UsageError."""
    for use in uses:
        record = blobs.get(use.key)
        if record is None or not may_read(who, admins, acl_of_blob(record)):
            which = "does not exist" if who is None else "does not exist, or which the caller may not read"
            raise UsageError(
                f"topology '{name}' names blob '{use.key}' in topology.blobstore.map, which {which}: "
                f"put it first, with 'tupletree blob put {use.key} FILE'"
            )


def changed_uses(before: pb.TopologyRecord, after: pb.TopologyRecord) -> set[BlobUse]:
    """Return the blobs that a topology is to have beside its workers after a change, and does not have before."""
    return _pending_uses(after) - _pending_uses(before)


def _pending_uses(record: pb.TopologyRecord) -> set[BlobUse]:
    """Return the blobs of what a topology goes on with."""
    uses = {use for version in needed_versions(record) for use in uses_in(version.conf_json)}
    if pending := record.pending.conf.get(BLOB_MAP):  # a key that waits for a restart: its value as JSON
        uses |= set(uses_in(f'{{"{BLOB_MAP}": {pending}}}'))
    return uses


def naming(records: Iterable[pb.TopologyRecord]) -> dict[str, list[pb.TopologyRecord]]:
    """Return the topologies that name each blob in any of their versions, by key, ascending by name.

    A topology that is being killed needs no blob any more.
    """
    by_key: dict[str, list[pb.TopologyRecord]] = {}
    for record in sorted(records, key=lambda one: one.name):
        if record.status != KILLED:
            uses = _pending_uses(record) | {use for one in versions_of(record) for use in uses_in(one.conf_json)}
            for key in {use.key for use in uses}:
                by_key.setdefault(key, []).append(record)
    return by_key


def check_deletion(
    key: str, records: Iterable[pb.TopologyRecord], who: Principal | None, admins: Collection[str]
) -> None:
    """Reject the deletion of a blob that topologies name. Raises UsageError."""
    named = naming(records).get(key, [])
    if not named:
        return
    names = [f"'{one.name}'" for one in named if may_read(who, admins, acl_of(one))]
    if len(names) < len(named):
        names.append("one that the caller may not see")
    raise UsageError(
        f"blob '{key}' is named by topology {', '.join(names)}: kill it or take the blob out of its "
        f"topology.blobstore.map first, or delete the blob with --force"
    )


def summary(
    record: pb.BlobRecord, named: Mapping[str, list[pb.TopologyRecord]], who: Principal | None, admins: Collection[str]
) -> rpc.BlobSummary:
    """Return a blob with the names of the topologies that name it, as far as ``who`` may see them."""
    visible = [one.name for one in named.get(record.key, ()) if may_read(who, admins, acl_of(one))]
    return rpc.BlobSummary(record=record, topologies=visible)
