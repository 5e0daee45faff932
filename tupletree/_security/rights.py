"""Every right, its holders, and the calls and pages of the cluster that require it. Pure.

A caller is a Principal, made from a token:

    user     a person or program, with roles: read, submit, admin, metrics, call (without: access shared by others)
    daemon   a nimbus, supervisor or acker: holds the cluster's secret; has every right but submit, admin and worker
    worker   a worker process of one topology

A topology determines the rights of users: its owner and the users in ``topology.users`` may change it, users in
``topology.readonly.users`` may see it. The roles of a token limit its use: an owner's token with the role read cannot
change anything.

A call without a row here is refused: a new call needs a new row. The rows of REST are in nimbus/web/routes.py.
"""

from __future__ import annotations  # pure

import enum
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from tupletree.v1.topology_pb2 import BlobRecord, PastTopology, TopologyRecord

Kind = Literal["user", "daemon", "worker"]

READ: Final = "read"
SUBMIT: Final = "submit"
ADMIN: Final = "admin"
METRICS: Final = "metrics"
CALL: Final = "call"
ROLES: Final = (READ, SUBMIT, ADMIN, METRICS, CALL)


class Right(enum.Enum):
    """The right required by a call."""

    OPEN = "nothing"
    METRICS = "to read metrics"
    KNOWN = "to be a user of this cluster"
    SUBMIT = "the role submit"
    CALL = "the role call or submit"
    READ = "to be allowed to see the topology"
    CHANGE = "to be its owner, in its topology.users, or an administrator"
    WRITE_STATE = "to be a user who is its owner, in its topology.users, or an administrator"
    ADMIN = "to be an administrator"
    DAEMON = "to be a daemon of this cluster"
    WORKER = "to be a worker of the topology"


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller, as stated by a verified token. ``through``: the program that calls in this user's name; "" for none."""

    name: str
    kind: Kind
    roles: frozenset[str] = frozenset()
    topology: str = ""  # of a worker
    through: str = ""

    @property
    def sentence(self) -> str:
        if self.through:
            return f"user '{self.name}' through '{self.through}'"
        if self.kind == "worker":
            return f"a worker of topology {self.topology}"
        return f"user '{self.name}'" if self.kind == "user" else f"the {self.name}"


@dataclass(frozen=True, slots=True)
class Acl:
    """The access list of a topology or a blob. ``label``: its name in error messages."""

    label: str
    owner: str
    users: frozenset[str] = frozenset()
    readers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Row:
    """The required right of one call or page.

    ``by``: the field with which a request names its topology, "name", "topology_id" or "port" (of a supervisor's slot),
    or its blob, "key": in the request itself or in ``part``, a part of the first message; for paths see
    nimbus/web/endpoint.py.
    ``mutates``: the call is written to the audit log.
    """

    right: Right
    by: str = ""
    part: str = ""
    mutates: bool = False


def acl_of(record: TopologyRecord) -> Acl:
    """Return the access list of a record's topology: the owner alone if the configuration is unreadable."""
    label = f"'{record.name}'"
    try:
        conf = json.loads(record.conf_json or "{}")
        users, readers = (frozenset(conf.get(key) or ()) for key in ("topology.users", "topology.readonly.users"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return Acl(label, record.owner)
    return Acl(label, record.owner, users, readers)


def acl_of_past(entry: PastTopology) -> Acl:
    """Return the access list of a removed topology, as it was at its removal."""
    return Acl(f"'{entry.name}'", entry.owner, frozenset(entry.users), frozenset(entry.readers))


def acl_of_blob(record: BlobRecord) -> Acl:
    """Return the access list of a blob."""
    return Acl(f"'{record.key}'", record.owner, frozenset(record.users), frozenset(record.readonly_users))


def refusal(
    who: Principal | None, row: Row | None, operation: str, admins: Collection[str], topology: Acl | str | None = None
) -> str | None:
    """Return the reason why ``who`` may not perform ``operation``; None if allowed.

    ``who``: None for a caller without a token. ``topology``: the access list of the topology that the request names, or
    its id for calls that require a worker; None if it does not exist.
    """
    if row is None:
        return f"{operation}: nobody may make this call, because no right is defined for it"
    if row.right is Right.OPEN:
        return None
    if who is None:
        return f"{operation} requires a token, and none was sent (set security.token)"
    if _has(who, row.right, admins, topology):
        return None
    needed = _OF_BLOBS.get(row.right, row.right.value) if row.by == "key" else row.right.value
    return f"{who.sentence} may not {operation}{_what(row, topology)}: the caller needs {needed}"


def may_read(who: Principal | None, admins: Collection[str], topology: Acl) -> bool:
    """True if ``who`` may see this topology in lists. ``who`` None: tokens are disabled, everybody sees everything."""
    return who is None or _has(who, Right.READ, admins, topology)


def may_read_all(who: Principal | None, admins: Collection[str]) -> bool:
    """True if ``who`` may see everything, as a reader of the whole cluster. ``who`` None: tokens are disabled."""
    return who is None or _has(who, Right.READ, admins, None)


def is_admin(who: Principal, admins: Collection[str]) -> bool:
    """True if a token has administrator rights. An administrator's read-only token has none, nor has impersonation."""
    return (
        who.kind == "user" and not who.through and (ADMIN in who.roles or (SUBMIT in who.roles and who.name in admins))
    )


def _has(who: Principal, right: Right, admins: Collection[str], topology: Acl | str | None) -> bool:
    if right is Right.WORKER:
        return who.kind == "worker" and isinstance(topology, str) and topology == who.topology != ""
    if right is Right.DAEMON:
        return who.kind == "daemon"
    if who.kind == "worker":
        return False
    if who.kind == "daemon":
        return right in (Right.KNOWN, Right.READ, Right.CHANGE, Right.METRICS)
    return is_admin(who, admins) or _user_has(who, right, topology if isinstance(topology, Acl) else None)


def _user_has(who: Principal, right: Right, acl: Acl | None) -> bool:
    match right:
        case Right.KNOWN:
            return who.roles != {METRICS}
        case Right.METRICS:
            return bool(who.roles & {METRICS, READ})
        case Right.SUBMIT:
            return SUBMIT in who.roles
        case Right.CALL:
            return bool(who.roles & {CALL, SUBMIT})
        case Right.READ:
            if who.roles == {METRICS}:
                return False
            return READ in who.roles or (acl is not None and who.name in {acl.owner, *acl.users, *acl.readers})
        case Right.CHANGE | Right.WRITE_STATE:
            return SUBMIT in who.roles and acl is not None and who.name in {acl.owner, *acl.users}
        case _:
            return False


def _what(row: Row, topology: Acl | str | None) -> str:
    if not row.by:
        return ""
    what = "blob" if row.by == "key" else "topology"
    if topology is None:
        return f" a {what} that does not exist or that the caller may not see"
    return f" {what} {topology.label if isinstance(topology, Acl) else topology}"


_OF_BLOBS: Final = {
    Right.READ: "to be allowed to read the blob",
    Right.CHANGE: "to be its owner, among its users, or an administrator",
}

_HEALTH: Final = "/grpc.health.v1.Health/"
_NIMBUS: Final = "/tupletree.v1.Nimbus/"
_SUPERVISOR: Final = "/tupletree.v1.Supervisor/"
_ACKER: Final = "/tupletree.v1.Acker/"
_WORKER: Final = "/tupletree.v1.Worker/"
_DRPC: Final = "/tupletree.v1.Drpc/"

CALLS: Final[dict[str, Row]] = {
    _HEALTH + "Check": Row(Right.OPEN),
    _HEALTH + "Watch": Row(Right.OPEN),
    _HEALTH + "List": Row(Right.OPEN),
    _NIMBUS + "GetLeader": Row(Right.KNOWN),
    _NIMBUS + "Submit": Row(Right.SUBMIT, part="header", mutates=True),
    _NIMBUS + "Update": Row(Right.CHANGE, by="name", part="header", mutates=True),
    _NIMBUS + "Rollback": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "Kill": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "Activate": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "Deactivate": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "Rebalance": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "SetLogLevels": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "SetSampling": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "SetTracing": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "SetConf": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "RestartWorker": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "GetConfiguration": Row(Right.KNOWN),  # passwords are masked
    _NIMBUS + "ListTopologies": Row(Right.KNOWN),  # filtered by the user's rights
    _NIMBUS + "ListPastTopologies": Row(Right.KNOWN),  # likewise
    _NIMBUS + "DescribeTopology": Row(Right.READ, by="name"),
    _NIMBUS + "DescribeAutoscaling": Row(Right.READ, by="name"),
    _NIMBUS + "ReadState": Row(Right.READ, by="name"),
    _NIMBUS + "LocateState": Row(Right.READ, by="name"),
    _NIMBUS + "MeasureStates": Row(Right.READ, by="name"),
    _NIMBUS + "WriteState": Row(Right.WRITE_STATE, by="name", mutates=True),
    _NIMBUS + "HoldCheckpoints": Row(Right.CHANGE, by="name", mutates=True),
    _NIMBUS + "DescribeCluster": Row(Right.KNOWN),
    _NIMBUS + "DescribeHealth": Row(Right.KNOWN),  # topologies are filtered by the user's rights
    _NIMBUS + "PutBlob": Row(Right.SUBMIT, part="header", mutates=True),
    _NIMBUS + "UpdateBlob": Row(Right.CHANGE, by="key", part="header", mutates=True),
    _NIMBUS + "DeleteBlob": Row(Right.CHANGE, by="key", mutates=True),
    _NIMBUS + "ListBlobs": Row(Right.KNOWN),  # filtered by the user's rights
    _NIMBUS + "DescribeBlob": Row(Right.READ, by="key"),
    _NIMBUS + "FetchBlob": Row(Right.READ, by="key"),
    _NIMBUS + "FetchBundle": Row(Right.DAEMON),
    _NIMBUS + "ReportWorker": Row(Right.WORKER, by="topology_id"),
    _SUPERVISOR + "Wake": Row(Right.DAEMON),
    _SUPERVISOR + "Beat": Row(Right.WORKER, by="topology_id"),
    _SUPERVISOR + "ListSlots": Row(Right.KNOWN),
    _SUPERVISOR + "TailLog": Row(Right.READ, by="topology_id"),
    _SUPERVISOR + "ListLogs": Row(Right.READ, by="topology_id"),
    _SUPERVISOR + "SearchLog": Row(Right.READ, by="topology_id"),
    _SUPERVISOR + "ProfileWorker": Row(Right.CHANGE, by="topology_id", mutates=True),
    _SUPERVISOR + "DumpStacks": Row(Right.CHANGE, by="topology_id", mutates=True),
    _SUPERVISOR + "RestartWorker": Row(Right.CHANGE, by="port", mutates=True),
    _ACKER + "Track": Row(Right.WORKER, by="topology_id", part="hello"),
    _ACKER + "TrackTrees": Row(Right.CALL),  # the acker checks the users of the namespace
    _ACKER + "DescribeLedger": Row(Right.KNOWN),
    _ACKER + "DropTopology": Row(Right.DAEMON),
    _WORKER + "Transfer": Row(Right.WORKER, by="topology_id", part="hello"),
    _WORKER + "ReadState": Row(Right.WORKER, by="topology_id"),  # nimbus signs for the topology
    _WORKER + "WriteState": Row(Right.WORKER, by="topology_id"),  # likewise
    _WORKER + "MeasureStates": Row(Right.WORKER, by="topology_id"),  # likewise
    _WORKER + "HoldCheckpoints": Row(Right.WORKER, by="topology_id"),  # likewise
    _WORKER + "DumpMemory": Row(Right.WORKER, by="topology_id"),  # the supervisor signs for the topology
    _DRPC + "Call": Row(Right.CALL),
    _DRPC + "Execute": Row(Right.CALL),
    _DRPC + "Serve": Row(Right.WORKER, by="topology_id", part="hello"),
    _DRPC + "Answer": Row(Right.WORKER, by="topology_id", part="hello"),
}
"""By the full gRPC method name."""

PAGES: Final[dict[str, Row]] = {
    "/healthz": Row(Right.OPEN),
    "/readyz": Row(Right.OPEN),
    "/metrics": Row(Right.METRICS),
    "/ledger": Row(Right.KNOWN),
    "/functions": Row(Right.KNOWN),
    "/drpc/": Row(Right.CALL),
    "/states/questions": Row(Right.OPEN),  # the worker checks a ticket of nimbus
}
"""Rows of every daemon's small HTTP server, by path."""
