"""The registry of an acker's ledgers: topologies served, routing of verdicts, and rotation.

A topology is created by the first hello that names it and has one ledger per shard that has received updates. A verdict
goes to the stream whose hello named its spout task: per worker, the newest such stream. Without such a stream the
verdict is dropped: the spout's worker is gone, and its pending map with it. Two workers can name the same task: a
machine that was partitioned returns with a worker that was replaced long ago. The acker cannot tell which
worker is current, so both receive the verdict; the worker that did not begin the tree does not know the root.

Time. A topology with message timeout T rotates its ledgers every T (three buckets: an entry expires 2T to 3T after its
last update; the spout gives up after T to 2T, so the acker never forgets a tree that a spout still waits for). A
rotation can be late, never early. Without message timeouts trees stay forever, and only entries without a spout are
removed. A topology whose last stream closed more than 2T ago is forgotten.

Draining. A stream has *moved* once it has reported a shard version newer than any seen when the drain began: its worker
then starts new trees elsewhere (and can report them to both ackers). Updates can still arrive for trees that its
spouts began a moment earlier and whose first tuples are in flight. Therefore, trees that begin within ``SETTLE_S``
after the last stream moved count as old. The drain is complete when all old trees have ended: no tree is lost on exit.

Pure: ``now_s`` is any monotonic clock; streams are numbers assigned by ``open``.
"""

from __future__ import annotations  # pure

from collections.abc import Iterator
from dataclasses import dataclass, field

from tupletree._wire.fail_reasons import WaitingReasons
from tupletree._wire.names import TREES_PREFIX
from tupletree.errors import AuthorityError, ProtocolError

from .ledger import Ledger
from .updates import Batch, Hello
from .verdicts import KINDS, Verdicts

UNTIMED_ROTATION_S = 600.0
"""Rotation interval of a topology without message timeouts, in which only entries without a spout expire."""

SETTLE_S = 0.5
"""Longest delay, in normal operation, from the start of a tree until its acker receives an update."""

Stream = int


@dataclass(slots=True)
class Topology:
    """One topology's ledgers and streams."""

    id: str
    timeout_s: float
    next_rotation_s: float
    ledgers: dict[int, Ledger] = field(default_factory=dict)
    spouts: dict[int, dict[str, Stream]] = field(default_factory=dict)  # spout task -> worker -> stream for verdicts
    hellos: dict[Stream, Hello] = field(default_factory=dict)
    streams: dict[Stream, int] = field(default_factory=dict)  # -> newest shard version reported
    unattended_since_s: float | None = None
    drain_from_version: int = 0
    reasons: WaitingReasons = field(default_factory=WaitingReasons)

    @property
    def is_namespace(self) -> bool:
        """True for trees of other programs, whose clients are told to begin trees elsewhere while the acker drains."""
        return self.id.startswith(TREES_PREFIX)

    @property
    def rotation_s(self) -> float:
        return self.timeout_s or UNTIMED_ROTATION_S

    @property
    def trees(self) -> int:
        return sum(ledger.trees for ledger in self.ledgers.values())

    @property
    def entries(self) -> int:
        return sum(map(len, self.ledgers.values()))

    def leave_shards(self) -> None:
        """Drop the empty ledgers of shards that the topology does not have any more, by what its workers say."""
        if not self.hellos:
            return
        count = max(hello.shards for hello in self.hellos.values())
        for shard in [one for one, ledger in self.ledgers.items() if one >= count and not len(ledger)]:
            del self.ledgers[shard]


class Registry:
    """All topologies of one acker. Not thread-safe. For ``hash_key`` see Ledger."""

    def __init__(self, hash_key: int = 0) -> None:
        self.topologies: dict[str, Topology] = {}
        self._hash_key = hash_key
        self._topology_of: dict[Stream, Topology] = {}
        self._last_stream = 0
        self._epoch = 0
        self._draining = False
        self._moved_at_s: float | None = None  # when the last stream had moved

    @property
    def entries(self) -> int:
        """Entries in all ledgers, including those without an init. The memory limit applies to this number."""
        return sum(topology.entries for topology in self.topologies.values())

    def flow(self, stream: Stream) -> tuple[int, int]:
        """Return the pending and the completed trees of a stream's topology; (0, 0) if the topology was dropped."""
        topology = self._topology_of.get(stream)
        ledgers = topology.ledgers.values() if topology is not None else ()
        return sum(ledger.trees for ledger in ledgers), sum(ledger.totals.completed for ledger in ledgers)

    # Streams

    def open(self, hello: Hello, now_s: float) -> Stream:
        """Register a stream after its worker's hello, and return the stream's number.

        Raises ProtocolError if the topology has open streams with another message timeout: a change of the timeout
        restarts all workers, and the first that is restarted is refused until the last old worker has ended.
        """
        topology = self.topologies.get(hello.topology_id)
        if topology is None:
            topology = Topology(hello.topology_id, hello.timeout_s, 0.0)
            topology.next_rotation_s = now_s + topology.rotation_s
            self.topologies[topology.id] = topology
        elif topology.timeout_s != hello.timeout_s:
            if topology.streams:
                raise ProtocolError(
                    f"hello: message_timeout_s is {hello.timeout_s:g}, and {topology.timeout_s:g} for the other "
                    f"workers of {topology.id}: all workers of a topology must have its message timeout"
                )
            topology.timeout_s = hello.timeout_s
            topology.next_rotation_s = now_s + topology.rotation_s
        self._last_stream += 1
        stream = self._last_stream
        topology.streams[stream] = 0
        topology.unattended_since_s = None
        for task in hello.tasks:
            topology.spouts.setdefault(task, {})[hello.worker_id] = stream
        topology.hellos[stream] = hello
        self._topology_of[stream] = topology
        return stream

    def close(self, stream: Stream, now_s: float) -> None:
        """Unregister a stream. Its trees stay: acks can still arrive, and the worker can reconnect.

        Verdicts for its spout tasks then go to the worker's newest remaining stream that named them, so a short-lived
        second stream does not leave the worker without verdicts.
        """
        topology = self._topology_of.pop(stream, None)
        if topology is None:
            return
        del topology.streams[stream]
        hello = topology.hellos.pop(stream)
        for task in hello.tasks:
            owners = topology.spouts[task]
            if owners[hello.worker_id] == stream:
                left = [other for other, said in topology.hellos.items() if _names(said, task, hello.worker_id)]
                if left:
                    owners[hello.worker_id] = max(left)
                else:
                    del owners[hello.worker_id]
            if not owners:
                del topology.spouts[task]
        if not topology.streams:
            topology.unattended_since_s = now_s

    def report_version(self, stream: Stream, shard_version: int) -> None:
        """Record the version of the newest shard map that a worker follows."""
        topology = self._topology_of.get(stream)
        if topology is None or shard_version <= topology.streams[stream]:
            return
        topology.streams[stream] = shard_version
        if self._draining and not topology.drain_from_version:
            topology.drain_from_version = shard_version

    # Updates and verdicts

    def apply(self, stream: Stream, batch: Batch, now_s: float) -> list[tuple[Stream, Verdicts]]:
        """Apply a stream's updates and return verdicts by receiving stream. No-op if the topology was dropped."""
        topology = self._topology_of.get(stream)
        if topology is None:
            return []
        ledger = topology.ledgers.get(batch.shard)
        if ledger is None:
            ledger = topology.ledgers[batch.shard] = Ledger(hash_key=self._hash_key)
        if batch.fail_reasons:
            topology.reasons.add(batch.fail_reasons)
        verdicts = ledger.apply(
            batch.init_roots,
            batch.init_values,
            batch.init_tasks,
            batch.ack_roots,
            batch.ack_values,
            batch.fail_roots,
            batch.reset_roots,
            now_s,
        )
        return self._by_stream(topology, verdicts)

    def _by_stream(self, topology: Topology, verdicts: Verdicts) -> list[tuple[Stream, Verdicts]]:
        """Group verdicts by the stream that receives them."""
        if not verdicts:
            return []
        found: dict[Stream, Verdicts] = {}
        for kind in KINDS:
            for task, roots in getattr(verdicts, kind).items():
                reasons = topology.reasons.take(roots) if kind == "failed" else {}
                for stream in topology.spouts.get(task, {}).values():
                    of_stream = found.setdefault(stream, Verdicts())
                    getattr(of_stream, kind)[task] = roots
                    if reasons:
                        of_stream.reasons = {**(of_stream.reasons or {}), **reasons}
        return list(found.items())

    # Time

    def next_rotation_s(self) -> float | None:
        """Return the time of the next rotation of any topology, or None without topologies."""
        return min((topology.next_rotation_s for topology in self.topologies.values()), default=None)

    def rotate(self, now_s: float) -> Iterator[list[tuple[Stream, Verdicts]]]:
        """Rotate the topologies that are due, in steps. Updates may be applied between the steps."""
        for topology in list(self.topologies.values()):
            if topology.next_rotation_s > now_s:
                continue
            # From now, not from the due time: a late rotation must not shorten the next cohort's lifetime.
            topology.next_rotation_s = now_s + topology.rotation_s
            for ledger in list(topology.ledgers.values()):
                for verdicts in ledger.rotation(now_s, trees_expire=topology.timeout_s > 0):
                    yield self._by_stream(topology, verdicts)
            topology.leave_shards()

    def forget_unattended(self, now_s: float) -> list[str]:
        """Drop every topology whose last stream closed more than two timeouts ago. Returns their ids."""
        gone = [
            topology.id
            for topology in self.topologies.values()
            if topology.unattended_since_s is not None and now_s - topology.unattended_since_s > 2 * topology.rotation_s
        ]
        for topology_id in gone:
            self._drop(topology_id)
        return gone

    # Commands

    def drop(self, epoch: int, topology_id: str) -> list[Stream]:
        """Forget a topology on the leader's command. Returns its streams, which the caller must end.

        Raises AuthorityError if the epoch is older than one already seen.
        """
        if epoch < self._epoch:
            raise AuthorityError(f"epoch {epoch} is outdated: epoch {self._epoch} has begun")
        self._epoch = epoch
        return self._drop(topology_id)

    def _drop(self, topology_id: str) -> list[Stream]:
        topology = self.topologies.pop(topology_id, None)
        if topology is None:
            return []
        topology.spouts.clear()  # verdicts of a rotation in progress reach nobody
        topology.hellos.clear()
        for stream in topology.streams:
            del self._topology_of[stream]
        return list(topology.streams)

    # Draining

    def begin_drain(self) -> None:
        """Record the current shard versions. Only a newer version means that nimbus has moved the shards elsewhere.

        If a topology has no known version yet, the first version reported counts as old.
        """
        self._draining = True
        for topology in self.topologies.values():
            topology.drain_from_version = max(topology.streams.values(), default=0)

    def drain_waits_for(self, now_s: float) -> str | None:
        """Return a short reason why the drain is not complete, or None if it is complete. Meant to be polled."""
        staying = [
            stream
            for topology in self.topologies.values()
            for stream, version in topology.streams.items()
            if version <= topology.drain_from_version and not topology.is_namespace
        ]
        if staying:
            self._moved_at_s = None
            return f"{len(staying)} workers still use an old shard map"
        if self._moved_at_s is None:
            self._moved_at_s = now_s
        settled_s = self._moved_at_s + SETTLE_S
        ledgers = [ledger for topology in self.topologies.values() for ledger in topology.ledgers.values()]
        trees = sum(ledger.trees_begun_by(settled_s) for ledger in ledgers)
        if trees:
            return f"{trees} trees are pending"
        return "workers may have begun trees before they moved" if now_s < settled_s and self._topology_of else None

    def longest_timeout_s(self) -> float:
        """Return the longest message timeout of the topologies served; 0 if there is none."""
        return max((topology.timeout_s for topology in self.topologies.values()), default=0.0)


def _names(hello: Hello, task: int, worker_id: str) -> bool:
    return hello.worker_id == worker_id and task in hello.tasks
