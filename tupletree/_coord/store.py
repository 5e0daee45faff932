"""Typed access to the data in ZooKeeper. Loads return snapshots; watches only wake.

Every method can be called from any thread except kazoo's own, and blocks for one or two round trips; async daemons use
``asyncio.to_thread``. Every method raises UnavailableError while ZooKeeper is unavailable.

A method that reads a single node raises InternalError if the node is unreadable: damaged, or of other credentials. A
method that reads a folder skips an unreadable node and logs it once, so that such a node affects only its owner.

Data that only the leader writes (records, assignments) is written by ``leader.py``, fenced by the leader's epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from google.protobuf.message import Message
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from tupletree._coord import paths
from tupletree._coord.forms import decode, encode
from tupletree._coord.leadership import Leadership
from tupletree._coord.paths import PresenceKind
from tupletree._coord.session import result, translated
from tupletree._coord.versioned import Found, Versioned
from tupletree._coord.watch import TreeWatch, Wake
from tupletree._log import event
from tupletree.errors import ForbiddenError, InternalError, NotFoundError
from tupletree.v1 import topology_pb2 as pb

log = logging.getLogger(__name__)

ERRORS_KEPT = 10  # per component
_MESSAGE_LIMIT = 1024
_TRACEBACK_LIMIT = 16 * 1024

__all__ = ["ERRORS_KEPT", "Found", "Leadership", "Store", "Versioned", "decode", "encode"]

M = TypeVar("M", bound=Message)


class Store:
    """Access to the data below one root. Holds nothing but the client and which unreadable nodes are logged."""

    def __init__(self, client: KazooClient, root: str) -> None:
        self.client = client
        self.root = root.rstrip("/")
        self._logged: set[str] = set()

    def sync(self) -> None:
        """Ensure that later reads see everything that any client wrote before this call."""
        with translated("catching up with ZooKeeper"):
            result(self.client.sync_async(self.root))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read what belongs together inside the context: a store with a cache then asks less often for changes."""
        yield

    # Topologies and assignments

    def topologies(self) -> Found[pb.TopologyRecord]:
        """Return every record, by topology id."""
        return self._load_all(paths.topologies(self.root), pb.TopologyRecord, lambda record: record.id)

    def topologies_of(self, topology_ids: Iterable[str]) -> Found[pb.TopologyRecord]:
        """Return the records of the given topologies, by topology id."""
        names = [paths.segment(one) for one in topology_ids]
        return self._load_named(paths.topologies(self.root), names, pb.TopologyRecord, lambda record: record.id)

    def topology(self, topology_id: str) -> Versioned[pb.TopologyRecord] | None:
        return self._load(paths.topology(self.root, topology_id), pb.TopologyRecord)

    def assignments(self) -> Found[pb.Assignment]:
        """Return every assignment, by topology id."""
        return self._load_all(paths.assignments(self.root), pb.Assignment, lambda one: one.topology_id)

    def assignment(self, topology_id: str) -> Versioned[pb.Assignment] | None:
        return self._load(paths.assignment(self.root, topology_id), pb.Assignment)

    def past_topologies(self) -> Found[pb.PastTopology]:
        """Return what is kept of removed topologies, by topology id."""
        return self._load_all(paths.history(self.root), pb.PastTopology, lambda one: one.id)

    def past_topology(self, topology_id: str) -> Versioned[pb.PastTopology] | None:
        return self._load(paths.past_topology(self.root, topology_id), pb.PastTopology)

    def blobs(self) -> Found[pb.BlobRecord]:
        """Return the record of every blob, by key."""
        return self._load_all(paths.blobs(self.root), pb.BlobRecord, lambda record: record.key)

    def blobs_of(self, keys: Iterable[str]) -> Found[pb.BlobRecord]:
        """Return the records of the given blobs, as far as they exist, by key."""
        names = [paths.segment(one) for one in keys]
        return self._load_named(paths.blobs(self.root), names, pb.BlobRecord, lambda record: record.key)

    def counter(self) -> Versioned[int]:
        """Return the number of topologies ever submitted; version -1 if none."""
        path = paths.counter(self.root)
        with translated("reading the topology counter"):
            try:
                data, stat = result(self.client.get_async(path))
            except NoNodeError:
                return Versioned(0, -1)
        return Versioned(int(data), stat.version)

    def statistics(self, topology_ids: Iterable[str]) -> dict[str, bytes]:
        """Return the topologies' statistics stored by an earlier leader, by topology id."""
        paths_by_id = {one: paths.statistics_of(self.root, one) for one in topology_ids}
        pending = {one: self.client.get_async(path) for one, path in paths_by_id.items()}
        with translated("reading the statistics"):
            answers = {one: result_or_none(request) for one, request in pending.items()}
        return {one: answer[0] for one, answer in answers.items() if answer is not None}

    # Presences

    def supervisors(self) -> dict[str, pb.Presence]:
        return self.presences("supervisor")

    def ackers(self) -> dict[str, pb.Presence]:
        return self.presences("acker")

    def nimbuses(self) -> dict[str, pb.Presence]:
        return self.presences("nimbus")

    def presences(self, kind: PresenceKind) -> dict[str, pb.Presence]:
        """Return the registered processes, by id. A killed process stays listed for the session timeout."""
        found = self._load_all(paths.presences(self.root, kind), pb.Presence, lambda presence: presence.id)
        return {identity: one.value for identity, one in found.items()}

    def leadership(self) -> Leadership | None:
        """Return the current leader, or None. A killed leader is still returned until its session has ended."""
        with translated("asking who leads"):
            try:
                data, _ = result(self.client.get_async(paths.leader_epoch(self.root)))
            except NoNodeError:
                return None
            leadership = Leadership.decode(data)
            alive = leadership.node and result(
                self.client.exists_async(paths.leader_candidate(self.root, leadership.node))
            )
        return leadership if alive else None

    def candidates(self) -> int:
        """Return the number of candidates: the nimbuses that hold every topology's bundle."""
        with translated("asking who stands for election"):
            return len(self._children(paths.leader_candidates(self.root)))

    # Workers

    def worker_presences(self, topology_id: str) -> dict[tuple[str, int], pb.WorkerPresence]:
        """Return the workers of a topology that their supervisors consider alive, by (supervisor id, port)."""
        folder = paths.workers_of(self.root, topology_id)
        found = self._load_all(folder, pb.WorkerPresence, lambda one: f"{one.supervisor_id}:{one.port}")
        return {(one.value.supervisor_id, one.value.port): one.value for one in found.values()}

    def worker_slots(self, topology_ids: Iterable[str]) -> dict[str, set[tuple[str, int]]]:
        """Return the keys of ``worker_presences`` for several topologies, without the values."""
        ids = list(topology_ids)
        listings = self._names([paths.workers_of(self.root, one) for one in ids])
        return {one: set(map(paths.worker_of, names)) for one, names in zip(ids, listings, strict=True)}

    def put_worker_presence(self, topology_id: str, presence: pb.WorkerPresence, reader: str = "") -> None:
        """Record the incarnation of the worker in a slot; replaces an earlier incarnation.

        ``reader``: the user whose workers read it, if they have credentials of their own. Raises NotFoundError if the
        topology is gone.
        """
        acls = self.client.worker_acls
        acl = acls.of_reader(reader) if acls is not None and reader else None
        path = paths.worker(self.root, topology_id, presence.supervisor_id, presence.port)
        data = encode(presence)
        with translated(f"announcing worker {presence.worker_id}"):
            while True:
                with suppress(NoNodeError):
                    result(self.client.set_async(path, data))
                    return
                try:
                    result(self.client.create_async(path, data, acl=acl))
                    return
                except NodeExistsError:
                    continue  # an earlier create whose reply was lost
                except NoNodeError:
                    break
        raise NotFoundError(f"topology {topology_id} is gone")

    def remove_worker_presence(self, topology_id: str, supervisor_id: str, port: int, worker_id: str) -> bool:
        """Remove this incarnation. Returns False, with no effect, if the slot holds another incarnation or none."""
        path = paths.worker(self.root, topology_id, supervisor_id, port)
        with translated(f"removing worker {worker_id}"):
            try:
                data, stat = result(self.client.get_async(path))
                if decode(data, pb.WorkerPresence, path).worker_id != worker_id:
                    return False
                result(self.client.delete_async(path, version=stat.version))
            except NoNodeError:
                return False
        return True

    # Errors

    def errors(self, topology_id: str) -> list[pb.ComponentError]:
        """Return the newest errors of every component of a topology, newest first."""
        folder = paths.errors_of(self.root, topology_id)
        components = [f"{folder}/{name}" for name in self._children(folder)]
        listings = zip(components, Store._names(self, components), strict=True)
        nodes = [f"{component}/{name}" for component, names in listings for name in names]
        found = [one.value for _, one in Store._load_nodes(self, nodes, pb.ComponentError, {})]
        return sorted(found, key=lambda error: -error.at_unix_s)

    def report_error(self, topology_id: str, error: pb.ComponentError) -> None:
        """Store an error, and delete all but the newest 10 of its component. No effect for a removed topology.

        The message is cut to 1 KiB, the traceback to its last 16 KiB. An error with a ``count`` of two or more replaces
        the same error with a smaller count.
        """
        bounded = pb.ComponentError()
        bounded.CopyFrom(error)
        bounded.message = error.message[:_MESSAGE_LIMIT]
        bounded.traceback = error.traceback[-_TRACEBACK_LIMIT:]
        folder = paths.errors_of_component(self.root, topology_id, error.component_id)
        with translated(f"reporting an error of {error.component_id}"):
            with suppress(NodeExistsError):
                try:
                    result(self.client.create_async(folder))
                except NoNodeError:
                    return
            with suppress(NoNodeError):
                result(self.client.create_async(f"{folder}/e", encode(bounded), sequence=True))
            names = sorted(self._children(folder), key=_sequence)
            stale = names[:-ERRORS_KEPT]
            if error.count > 1:
                stale += self._earlier(folder, names[-ERRORS_KEPT:], bounded)
            for pending in [self.client.delete_async(f"{folder}/{name}") for name in stale]:
                with suppress(NoNodeError):
                    result(pending)

    def _earlier(self, folder: str, names: Sequence[str], error: pb.ComponentError) -> list[str]:
        """Return the names of stored errors that are earlier counts of ``error``."""
        loaded = Store._load_nodes(self, [f"{folder}/{name}" for name in names], pb.ComponentError, {})
        return [
            path.rpartition("/")[2]
            for path, one in loaded
            if _counted(one.value) == _counted(error) and one.value.count < error.count
        ]

    # Watches: see watch.py for the guarantees of a wake. Each method returns a handle with cancel().

    def watch_topologies(self, wake: Wake) -> TreeWatch:
        """Watch every topology's record."""
        return TreeWatch(self.client, [(paths.topologies(self.root), 1)], wake).start()

    def watch_topology(self, topology_id: str, wake: Wake) -> TreeWatch:
        """Watch one topology's record, its assignment and its workers' presences."""
        roots = [
            (paths.topology(self.root, topology_id), 0),
            (paths.assignment(self.root, topology_id), 0),
            (paths.workers_of(self.root, topology_id), 1),
        ]
        return TreeWatch(self.client, roots, wake).start()

    def watch_assignments(self, wake: Wake) -> TreeWatch:
        """Watch every topology's assignment."""
        return TreeWatch(self.client, [(paths.assignments(self.root), 1)], wake).start()

    def watch_blobs(self, wake: Wake) -> TreeWatch:
        """Watch every blob's record."""
        return TreeWatch(self.client, [(paths.blobs(self.root), 1)], wake).start()

    def watch_presence(self, kind: PresenceKind, wake: Wake) -> TreeWatch:
        """Watch every registered process of a kind."""
        return TreeWatch(self.client, [(paths.presences(self.root, kind), 1)], wake).start()

    def watch_leadership(self, wake: Wake) -> TreeWatch:
        """Watch the leader and the candidates."""
        roots = [(paths.leader_epoch(self.root), 0), (paths.leader_candidates(self.root), 1)]
        return TreeWatch(self.client, roots, wake).start()

    # Loading

    def _load(self, path: str, kind: type[M]) -> Versioned[M] | None:
        unreadable: dict[str, str] = {}
        found = self._load_nodes([path], kind, unreadable)
        for reason in unreadable.values():
            raise InternalError(reason)
        return found[0][1] if found else None

    def _load_all(self, folder: str, kind: type[M], key: Callable[[M], str]) -> Found[M]:
        with self.snapshot():
            (names,) = self._names([folder])
            return self._load_named(folder, sorted(names), kind, key)

    def _load_named(self, folder: str, names: Sequence[str], kind: type[M], key: Callable[[M], str]) -> Found[M]:
        """Return the given nodes of a folder; ``key`` extracts the id that a node is named after."""
        unreadable: dict[str, str] = {}
        found: Found[M] = Found()
        for node, one in self._load_nodes([f"{folder}/{name}" for name in names], kind, unreadable):
            identity = paths.identity_of(node)
            if key(one.value) == identity:
                found[identity] = one
            else:
                unreadable[node] = f"ZooKeeper's {node} holds the {kind.__name__} of {key(one.value)[:200]!r}"
        found.unreadable = {paths.identity_of(node): reason for node, reason in unreadable.items()}
        for node in unreadable.keys() - self._logged:
            self._logged.add(node)
            event(log, "zookeeper.unreadable", level=logging.WARNING, node=node, cause=unreadable[node])
        if self._logged:
            self._logged -= {f"{folder}/{name}" for name in names} - unreadable.keys()
        return found

    def _load_nodes(
        self, nodes: Sequence[str], kind: type[M], unreadable: dict[str, str]
    ) -> list[tuple[str, Versioned[M]]]:
        """Read the existing nodes in a batch: all requests are sent before the first answer is awaited.

        Unreadable nodes are skipped, with the reason added to ``unreadable``.
        """
        pending = [(node, self.client.get_async(node)) for node in nodes]
        found: list[tuple[str, Versioned[M]]] = []
        for node, one in pending:
            answer = answer_or_none(one, node, unreadable)
            if answer is not None:
                value = decoded(answer, kind, node)
                if isinstance(value, str):
                    unreadable[node] = value
                else:
                    found.append((node, value))
        return found

    def tree_below(self, node: str) -> list[str]:
        """Return a node and all its descendants, children first. Empty if there is no such node."""
        found: list[str] = []
        level = [node]
        while level:
            pending = [(one, self.client.get_children_async(one)) for one in level]
            level = []
            for one, request in pending:
                with translated(f"reading {one}"):
                    names = result_or_none(request)
                if names is not None:
                    found.append(one)
                    level += [f"{one}/{name}" for name in sorted(names)]
        return found[::-1]

    def _children(self, folder: str) -> list[str]:
        return Store._names(self, [folder])[0]

    def _names(self, folders: Sequence[str]) -> list[list[str]]:
        """Return the names of the children of each folder; none for a folder that does not exist."""
        pending = [(folder, self.client.get_children_async(folder)) for folder in folders]
        listings = []
        for folder, one in pending:
            with translated(f"reading {folder}"):
                listings.append(list(result_or_none(one) or ()))
        return listings


def decoded(answer: tuple[bytes, Any], kind: type[M], path: str) -> Versioned[M] | str:
    """Return the message of a node, given its data and state, with its version; or the reason why it is unreadable."""
    data, stat = answer
    try:
        return Versioned(decode(data, kind, path), stat.version)
    except InternalError as error:
        return str(error)


def answer_or_none(pending: Any, node: str, unreadable: dict[str, str]) -> Any:
    """Return the data and the state of a node; None if it does not exist, or belongs to other credentials.

    In the second case the reason is added to ``unreadable``: one topology, or one process, is concerned.
    """
    try:
        with translated(f"reading {node}"):
            return result_or_none(pending)
    except ForbiddenError as error:
        unreadable[node] = str(error)
        return None


def result_or_none(pending: Any) -> Any:
    """Return the result of a read, or None if there is no such node."""
    try:
        return result(pending)
    except NoNodeError:
        return None


def _sequence(name: str) -> int:
    return int(name[-10:])


def _counted(error: pb.ComponentError) -> tuple[str, int, str, float]:
    return error.host, error.port, error.message, error.first_unix_s
