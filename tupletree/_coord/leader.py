"""Leader election, and fenced writes that a deposed leader cannot make.

Every nimbus puts an ephemeral sequential node under ``leader/candidates``; the nimbus with the lowest sequence leads. A
new leader first increments the counter in ``leader/epoch`` with a compare-and-set, which leaves the node at a version
unique to this leadership. Each write of the leader is one ZooKeeper transaction::

    check that leader/epoch is still at my version    (else AuthorityError: another leadership has begun since)
    + the writes, each with the version it was based on    (else ConflictError: reload and decide again)

Thus a leader that was suspended, stopped or cut off, and is unaware that another has taken over, changes nothing.
A deposed leader need not stand down promptly: the epoch gives the protection, the callbacks only inform.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import KazooState
from kazoo.security import ACL

from tupletree._coord import paths
from tupletree._coord.acls import share
from tupletree._coord.loop import WakeLoop
from tupletree._coord.session import Session, result, translated
from tupletree._coord.store import Leadership
from tupletree._coord.watch import TreeWatch
from tupletree._log import event
from tupletree.errors import AuthorityError, ConflictError, ForbiddenError, UsageError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Create:
    """Create a node that must not exist.

    ``reader``: the user whose workers read it. ``writer``: the user whose workers also write it, and below it.
    """

    path: str
    data: bytes = b""
    reader: str = ""
    writer: str = ""


@dataclass(frozen=True)
class Put:
    """Replace the value of a node that must be at ``version``."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True)
class Delete:
    """Delete a node that must be at ``version`` (-1: any) and have no children."""

    path: str
    version: int = -1


Write = Create | Put | Delete

# ZooKeeper closes the connection on a message of more than jute.maxbuffer, which is 1 MiB unless it is configured.
MAX_TRANSACTION_BYTES = 1_000_000
_OVERHEAD_BYTES = 256  # per write: its header, its version, the ACL of a created node


@dataclass(frozen=True)
class Front:
    """The first candidate: its node and the address of its nimbus. ``is_me``: the candidate is this nimbus."""

    node: str
    address: str
    is_me: bool


@dataclass(frozen=True)
class _Tenure:
    epoch: int
    epoch_version: int  # of the node leader/epoch


class LeaderElection:
    """A nimbus's participation in the election, from ``start`` to ``stop``.

    ``on_elected(epoch)`` and ``on_deposed(epoch)`` alternate, in the election's own thread; they must not block.
    """

    def __init__(
        self,
        client: Session,
        root: str,
        identity: str,
        address: str,
        *,
        on_elected: Callable[[int], None],
        on_deposed: Callable[[int], None],
    ) -> None:
        self._client = client
        self._root = root.rstrip("/")
        self._identity = identity
        self.address = address
        self._on_elected = on_elected
        self._on_deposed = on_deposed
        self._loop = WakeLoop(f"election-{identity}", self._step)
        self._lock = threading.Lock()  # guards the fields below; held for assignments only
        self._prefix = ""  # of this enrolment's candidate node
        self._node = ""  # the candidate node; empty: not enrolled
        self._tenure: _Tenure | None = None
        self._standing = False
        self._watch: TreeWatch | None = None
        self._stopping = False

    @property
    def epoch(self) -> int | None:
        """The epoch of this nimbus's leadership; None while it does not lead, to its own knowledge."""
        tenure = self._tenure
        return None if tenure is None else tenure.epoch

    def start(self) -> None:
        """Create the base nodes of the cluster's tree, without standing for election. Raises UnavailableError."""
        with translated("preparing the tree"):
            for folder in paths.folders(self._root):
                result(self._client.ensure_path_async(folder))
            with suppress(NodeExistsError):
                nobody = Leadership(0, "", "", "").encode()
                result(self._client.create_async(paths.leader_epoch(self._root), nobody))
            if acls := self._client.worker_acls:
                read = [paths.leader_epoch(self._root), paths.leader_candidates(self._root)]
                for path in [self._root, *read] if self._root else read:
                    share(self._client, path, acls.of_all_workers())
        self._loop.start()
        self._client.add_listener(self._on_state)
        roots = [(paths.leader_epoch(self._root), 0), (paths.leader_candidates(self._root), 1)]
        self._watch = TreeWatch(self._client, roots, self._loop.wake).start()

    def stop(self) -> None:
        """Stand down permanently. Calls ``on_deposed`` if this nimbus led."""
        self._stopping = True
        self._client.remove_listener(self._on_state)
        if self._watch is not None:
            self._watch.cancel()
        self._loop.stop()
        self._depose("stopping")
        with suppress(Exception):
            self._withdraw()

    def stand(self) -> None:
        """Join the election, behind all current candidates. Returns at once. No effect if it already stands."""
        if not self._standing:
            self._standing = True
            self._loop.wake()

    def stand_down(self) -> None:
        """Give up the leadership or the place in the queue, until ``stand`` is called again. Returns at once."""
        if self._standing:
            self._standing = False
            self._loop.wake()

    def front(self) -> Front | None:
        """Return the first candidate, which leads or is about to lead. None if there is no candidate."""
        folder = paths.leader_candidates(self._root)
        with translated("reading the candidates"):
            candidates = sorted(result(self._client.get_children_async(folder)), key=_sequence)
            for node in candidates:
                with suppress(NoNodeError):
                    data, _ = result(self._client.get_async(paths.leader_candidate(self._root, node)))
                    return Front(node, data.decode(), node.startswith(f"{paths.segment(self._identity)}-"))
        return None

    def unseat(self, front: Front) -> None:
        """Remove a candidate whose process is known to be dead, without waiting for the end of its session.

        If the process is alive after all, it stands again behind the others; its writes as leader are refused.
        """
        with translated(f"unseating {front.node}"), suppress(NoNodeError):
            result(self._client.delete_async(paths.leader_candidate(self._root, front.node)))
        event(logger, "leader.unseated", level=logging.WARNING, node=front.node, address=front.address)

    def write(self, epoch: int, writes: Sequence[Write]) -> None:
        """Apply all of ``writes``, or none.

        Raises AuthorityError if leadership ``epoch`` is over, ConflictError if a node differs from the expectation of
        ``writes``, UsageError if the writes exceed ZooKeeper's message size, and UnavailableError while ZooKeeper is
        unavailable: then the writes may or may not have been applied.
        """
        _check_size(writes)
        with self._lock:
            tenure = self._tenure
        if tenure is None or tenure.epoch != epoch:
            raise AuthorityError(f"leadership {epoch} is over")
        transaction = self._client.transaction()
        transaction.check(paths.leader_epoch(self._root), tenure.epoch_version)
        for write in writes:
            match write:
                case Create(path, data):
                    transaction.create(path, data, acl=self._acl(write))
                case Put(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
        with translated("writing as leader"):
            outcomes = result(transaction.commit_async())
        self._judge(epoch, writes, outcomes)

    def _acl(self, write: Create) -> list[ACL] | None:
        """Return the access list of a node to create; None: that of all nodes."""
        acls = self._client.worker_acls
        if acls is None or not (write.reader or write.writer):
            return None
        return acls.of_writer(write.writer) if write.writer else acls.of_reader(write.reader)

    def _judge(self, epoch: int, writes: Sequence[Write], outcomes: Sequence[object]) -> None:
        if isinstance(outcomes[0], BadVersionError):
            self._loop.wake()
            raise AuthorityError(f"leadership {epoch} has ended: another has begun")
        for write, outcome in zip(writes, outcomes[1:], strict=True):
            if isinstance(outcome, NoAuthError):
                raise ForbiddenError(f"{write.path} belongs to other credentials (check zookeeper.auth.user)")
            if isinstance(outcome, Exception) and not isinstance(outcome, RolledBackError | RuntimeInconsistency):
                raise ConflictError(f"{write.path} is not as expected ({type(outcome).__name__})")

    # The election. All methods below run in the loop's thread.

    def _on_state(self, state: str) -> None:
        if state == KazooState.LOST:
            with self._lock:
                self._node = ""  # the node was deleted with the session
        self._loop.wake()

    def _step(self) -> None:
        if self._stopping:
            return
        if self._tenure is not None and not self._node:
            self._depose("session lost")
        if not self._standing:
            self._depose("stood down")
            self._withdraw()
            return
        with translated("taking part in the election"):
            candidates = self._enrol()
            if candidates[0] != self._node:
                self._depose(f"candidate {candidates[0]} is now first")
            elif self._tenure is None:
                self._begin()
            else:
                self._check_tenure()

    def _enrol(self) -> list[str]:
        """Enrol if necessary and return all candidates in order."""
        folder = paths.leader_candidates(self._root)
        while True:
            candidates = sorted(result(self._client.get_children_async(folder)), key=_sequence)
            mine = [name for name in candidates if self._prefix and name.startswith(self._prefix)]
            if mine and (self._node == mine[0] or not self._node):
                self._node = mine[0]  # empty until now if the reply to the creation was lost
                return candidates
            if self._node:
                self._node = ""
                self._depose("its candidate node was removed")
            # A new name per enrolment, to distinguish a lost reply from an earlier session's node.
            self._prefix = f"{paths.segment(self._identity)}-{uuid.uuid4().hex[:8]}-"
            acl = None if self._client.worker_acls is None else self._client.worker_acls.of_all_workers()
            created = result(
                self._client.create_async(
                    f"{folder}/{self._prefix}", self.address.encode(), acl=acl, ephemeral=True, sequence=True
                )
            )
            self._node = created.rsplit("/", 1)[1]

    def _begin(self) -> None:
        path = paths.leader_epoch(self._root)
        data, stat = result(self._client.get_async(path))
        last = Leadership.decode(data)
        if last.node == self._node:  # the reply to our own write was lost
            tenure = _Tenure(last.epoch, stat.version)
        else:
            mine = Leadership(last.epoch + 1, self._identity, self.address, self._node)
            try:
                now = result(self._client.set_async(path, mine.encode(), version=stat.version))
            except BadVersionError as error:
                raise ConflictError("another leadership began at the same moment") from error
            tenure = _Tenure(mine.epoch, now.version)
        with self._lock:
            self._tenure = tenure
        event(logger, "leader.elected", id=self._identity, epoch=tenure.epoch)
        self._on_elected(tenure.epoch)

    def _check_tenure(self) -> None:
        stat = result(self._client.exists_async(paths.leader_epoch(self._root)))
        tenure = self._tenure
        if tenure is not None and (stat is None or stat.version != tenure.epoch_version):
            self._depose("another leadership has begun")
            self._withdraw()

    def _depose(self, cause: str) -> None:
        with self._lock:
            tenure, self._tenure = self._tenure, None
        if tenure is not None:
            event(logger, "leader.deposed", id=self._identity, epoch=tenure.epoch, cause=cause)
            self._on_deposed(tenure.epoch)

    def _withdraw(self) -> None:
        """Delete the candidate node, which notifies the next candidate at once."""
        with self._lock:
            node, self._node = self._node, ""
            self._prefix = ""
        if node:
            with translated("leaving the election"), suppress(NoNodeError):
                result(self._client.delete_async(paths.leader_candidate(self._root, node)))


def size_of(write: Write) -> int:
    """Return the maximum bytes that a write takes in a transaction."""
    data = b"" if isinstance(write, Delete) else write.data
    return len(write.path.encode()) + len(data) + _OVERHEAD_BYTES


def parts(writes: Sequence[Write]) -> list[list[Write]]:
    """Split the writes, in order, into as few transactions as possible."""
    found: list[list[Write]] = []
    room = 0
    for write in writes:
        if not found or size_of(write) > room:
            found.append([])
            room = MAX_TRANSACTION_BYTES
        found[-1].append(write)
        room -= size_of(write)
    return found


def _check_size(writes: Sequence[Write]) -> None:
    size = sum(map(size_of, writes))
    if size > MAX_TRANSACTION_BYTES:
        largest = max(writes, key=size_of)
        raise UsageError(
            f"{largest.path} cannot be written: the change has {size} bytes as stored, and ZooKeeper takes "
            f"{MAX_TRANSACTION_BYTES} in one transaction; use fewer workers, executors or components, or a smaller "
            "configuration"
        )


def _sequence(name: str) -> int:
    return int(name[-10:])
