"""Spout that runs the coordinator: it stores durable records first, then emits the tuples that depend on them.

The rules are in coordinator.py. While the store cannot be reached, no transaction begins or commits. Batches in flight
continue, and everything resumes when the store is back.

**After a takeover by another coordinator** the behaviour depends on the topology of the successor. If it is another
topology, this coordinator stops permanently, because the other topology was submitted later. If it is the same
topology, one of the two coordinators is a leftover of a replaced worker. The leftover is not necessarily the deposed
coordinator: a worker that hung can take over after its successor did. The leftover will be stopped, and the remaining
coordinator must lead. So a deposed coordinator takes over again after a pause. The pause grows, to give the other
coordinator time for its batches.
"""

from __future__ import annotations

import enum
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from tupletree._log import event
from tupletree._stores.nodes import DeposedError, StateStore
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.attempt import TransactionAttempt
from tupletree.component import Spout, SpoutCollector, TopologyContext
from tupletree.errors import (
    AuthorityError,
    ConfigError,
    FailedException,
    ReportedFailedException,
    UnavailableError,
    UnregisteredTypeError,
)
from tupletree.outputs import Stream
from tupletree.transactional.coordinator import Coordinator, Effect, EmitCommit, Record
from tupletree.transactional.progress import Progress
from tupletree.transactional.spouts import TransactionalSpout, TransactionCoordinator, checked_part
from tupletree.transactional.streams import (
    BATCH,
    BATCH_STREAM,
    COMMIT,
    COMMIT_STREAM,
    GROUP_COMMIT,
    MAX_GROUP,
    commit_values,
)

log = logging.getLogger(__name__)

RETRY_S = 0.2
FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 30.0
"""The longest pause before a takeover from another coordinator of the same topology."""

MAX_SOURCE_PAUSE_S = 5.0
"""The longest pause before the next call of a source that keeps raising reported errors."""

MAX_PLANNING_S = 0.005
"""Time after which no further transaction joins those that begin together: a source can be slow."""

WORTH_A_WORD = 5
"""Number of failures since the last commit at which an error is reported; again every 20 * WORTH_A_WORD failures."""


class Tree(enum.Enum):
    """The two tuple trees of a transaction, as used in message ids."""

    BATCH = "batch"
    COMMIT = "commit"


class CoordinatorSpout(Spout):
    """Coordinates the transactional topology ``transactional_id``. Message ids are (tree, attempt).

    ``default_active``: maximum number of active transactions if ``topology.max.spout.pending`` is not set.
    ``commits_in_groups``: true if every committer permits it; the builder sets this when all components are known.
    ``open_store`` and ``clock`` are parameters for the simulation.
    """

    blocking = True
    paces_itself = True
    commits_in_groups = False  # of the class: coordinators submitted by earlier versions do not

    def __init__(
        self,
        transactional_id: str,
        spout: TransactionalSpout,
        *,
        default_active: int = 1,
        open_store: Callable[[Mapping[str, Any]], StateStore] = open_store,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.transactional_id = transactional_id
        self.spout = spout
        self._default_active = default_active
        self._open_store = open_store
        self._clock = clock

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare_stream(BATCH.id, BATCH.fields)
        declarer.declare_stream(COMMIT.id, self.commit_stream.fields)

    @property
    def _state_form(self) -> str:
        """The owner of the stored progress: an update must go on with the same."""
        return f"{type(self.spout).__name__} of {self.transactional_id!r}"

    @property
    def commit_stream(self) -> Stream:
        """The stream of commit tuples."""
        return GROUP_COMMIT if self.commits_in_groups else COMMIT

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        if conf.get("topology.acker.executors") == 0:
            raise ConfigError(
                "topology.acker.executors is 0, but without ackers a transactional topology cannot tell when a batch "
                "is complete"
            )
        self.collector = collector
        self.context = context
        self._conf = conf  # of the task, whose keys can change while the topology runs
        self._topology = f"topology {context.topology_id}, "
        self._owner = f"{self._topology}process {os.getpid()} on {socket.gethostname()}"
        self._store = self._open_store(conf)
        self._source = checked_part(TransactionCoordinator, self.spout.coordinator(conf, context), self.spout, context)
        self._coordinator: Coordinator | None = None
        self._progress: Progress | None = None  # None: this coordinator must take over first
        self._effects: deque[Effect] = deque()
        self._retry_at_s = 0.0  # time of the next attempt to reach the store
        self._begin_at_s = 0.0  # time of the next call of the source
        self._complaints = 0  # consecutive reported errors of the source
        self._has_news = False  # a commit was emitted, and has not left yet
        self._is_active = True  # False while the topology is deactivated: transactions in flight continue, none begins
        self._is_deposed = False  # permanently
        self._depositions = 0  # consecutive takeovers by coordinators of the same topology
        self._began_s = 0.0
        self._attempts_began_s: dict[TransactionAttempt, float] = {}  # replaced, never mutated: status() reads it
        context.register_status(self.status)
        self._busy_since_s = self._clock()  # start of the period in which transactions were always in flight
        self._committed_at_s = self._clock()  # time of the last commit; the start time before the first commit
        self._commits = 0
        self._register_metrics(context)

    def _register_metrics(self, context: TopologyContext) -> None:
        own = context.register_own
        own("transactions_committed_txid", "gauge", "The last committed transaction.", lambda: self.committed)
        own("transactions_in_flight", "gauge", "Transactions being processed or committed.", lambda: self.active)
        own("transactions_commits", "counter", "Transactions committed by this coordinator.", lambda: self._commits)
        own(
            "transactions_failures", "gauge", "Attempts that failed since the last commit.",
            self._failures,
        )  # fmt: skip
        own(
            "transactions_since_commit_seconds", "gauge",
            "Time since the last commit, or since transactions are in flight; 0 while there is nothing to commit.",
            lambda: self._clock() - self._waits_since_s() if self.active or self._failures() else 0,
        )  # fmt: skip

    def _failures(self) -> int:
        return self._coordinator.failures if self._coordinator is not None else 0

    def _waits_since_s(self) -> float:
        """The time since which a commit has been possible: an hour without input must not look like a stall."""
        return max(self._committed_at_s, self._busy_since_s)

    def close(self) -> None:
        self._source.close()
        self._store.close()

    def activate(self) -> None:
        self._is_active = True

    def deactivate(self) -> None:
        self._is_active = False

    @property
    def _max_active(self) -> int:
        """The configured limit of active transactions, which can change while the topology runs."""
        return self._conf.get("topology.max.spout.pending") or self._default_active

    @property
    def committed(self) -> int:
        """The last committed transaction that this coordinator knows of."""
        return self._coordinator.committed if self._coordinator is not None else 0

    @property
    def active(self) -> int:
        """The number of active transactions."""
        return len(self._coordinator.active) if self._coordinator is not None else 0

    def status(self) -> dict[str, Any]:
        """Return the status for people. Called on another thread: attributes can change meanwhile."""
        coordinator, now_s, began_s = self._coordinator, self._clock(), self._attempts_began_s
        active = list(coordinator.active.values()) if coordinator is not None else []
        return {
            "kind": "coordinator",
            "transactional_id": self.transactional_id,
            "state": "deposed" if self._is_deposed else "taking over" if self._progress is None else "running",
            "committed": self.committed,
            "active": [
                {
                    "txid": one.attempt.txid,
                    "attempt": one.attempt.attempt,
                    "phase": one.phase.value,
                    "age_s": round(now_s - began_s.get(one.attempt, now_s), 3),
                }
                for one in active
            ],
            "failures": coordinator.failures if coordinator is not None else 0,
            "lag": self._lag(),
        }

    def _lag(self) -> dict[str, Any] | None:
        """Return the lag reported by the source. The source is user code, so its errors are caught here."""
        try:
            lag = self._source.lag()
            return None if lag is None else dict(lag)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def next_tuple(self) -> None:
        if not self._has_news:
            self._advance(begins=True)
        self._has_news = False  # a commit leaves when this method returns, before the next batch needs the store

    def ack(self, msg_id: tuple[Tree, TransactionAttempt]) -> None:
        tree, attempt = msg_id
        if self._coordinator is None or self._progress is None or self._is_deposed:
            return
        done = self._coordinator.processed if tree is Tree.BATCH else self._coordinator.commit_done
        before = self._coordinator.committed
        self._effects.extend(done(attempt))
        if self._coordinator.committed != before:
            self._committed_at_s = self._clock()
            self._commits += self._coordinator.committed - before
        self._advance(begins=False)

    def fail(self, msg_id: tuple[Tree, TransactionAttempt]) -> None:
        tree, attempt = msg_id
        if self._coordinator is None or self._progress is None:
            return
        over = self._coordinator.failed(attempt, self._clock())
        if over:
            self._progress.doubt()  # perhaps deposed: emitters then fail every batch, and a replay writes nothing
            others = [other.txid for other in over[1:]]
            event(log, "transaction.failed", id=self.transactional_id, attempt=attempt, tree=tree.value, along=others)
            self._report_if_stuck(attempt, tree)

    def _report_if_stuck(self, attempt: TransactionAttempt, tree: Tree) -> None:
        """Report repeated failures: a single failure (FailedException, a timeout) is silent."""
        assert self._coordinator is not None
        failures = self._coordinator.failures
        if failures == WORTH_A_WORD or failures % (20 * WORTH_A_WORD) == 0:
            phase = "processed" if tree is Tree.BATCH else "committed"
            self.collector.report_error(
                FailedException(
                    f"no transaction of {self.transactional_id!r} has committed for {failures} attempts; transaction "
                    f"{attempt.txid} was not {phase}: a component fails it (other errors, or batch.failed in the "
                    f"worker's log, say why), or it takes longer than topology.message.timeout.secs "
                    f"({self.context.conf.get('topology.message.timeout.secs')})"
                )
            )

    def _advance(self, *, begins: bool) -> None:
        """Do what is decided but not done: store writes, emits. If the store cannot be reached, retry later."""
        if self._is_deposed or self._clock() < self._retry_at_s:
            return
        try:
            if self._progress is None:
                self._take_over()
            while self._effects:
                self._carry_out(self._effects[0])
                self._effects.popleft()
            if begins:
                if self._coordinator is not None:
                    self._coordinator.max_active = self._max_active
                self._begin()
        except UnavailableError as error:
            self._retry_at_s = self._clock() + RETRY_S
            event(log, "transactions.waiting", id=self.transactional_id, cause=error)
            self.collector.report_error(error)
        except AuthorityError as error:
            event(log, "coordinator.deposed", id=self.transactional_id, cause=error)
            self.collector.report_error(error)
            self._stand_down(error)

    def _take_over(self) -> None:
        progress = self._progress = Progress.take_over(self._store, self.transactional_id, self._owner)
        max_group = MAX_GROUP if self.commits_in_groups else 1
        self._coordinator = Coordinator(progress.epoch, progress.committed, self._max_active, max_group)
        self._began_s = self._clock()
        event(
            log, "coordinator.began", id=self.transactional_id, epoch=progress.epoch, committed=progress.committed
        )  # fmt: skip

    def _stand_down(self, error: AuthorityError) -> None:
        """Stop permanently, or for a pause if the successor is of the same topology."""
        self._effects.clear()
        if not isinstance(error, DeposedError) or not error.successor.startswith(self._topology):
            self._is_deposed = True
            return
        if self._clock() - self._began_s > MAX_PAUSE_S:
            self._depositions = 0
        self._progress = None
        self._retry_at_s = self._clock() + min(MAX_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._depositions, 10))
        self._depositions += 1

    def _carry_out(self, effect: Effect) -> None:
        assert self._progress is not None and self._coordinator is not None
        match effect:
            case Record(committed, committing):
                self._progress.record(committed, committing)
            case EmitCommit(attempts):
                if self._coordinator.is_current(attempts[0]):  # it can have failed while the store was unreachable
                    values = commit_values(attempts, in_groups=self.commits_in_groups)
                    self.collector.emit(values, (Tree.COMMIT, attempts[0]), COMMIT_STREAM)
                    self._has_news = True
            case _:
                assert_never(effect)

    def _begin(self) -> None:
        """Begin the transactions for which there is room and the source has a batch, as soon as they are durable."""
        assert self._coordinator is not None and self._progress is not None
        now_s = self._clock()
        if not self._is_active or now_s < self._begin_at_s or self._coordinator.wants(now_s) is None:
            return
        self._progress.refresh()  # an earlier write whose reply was lost can have stored the metadata
        txids = self._plan()
        self._progress.store_metadata()
        if not txids:
            return
        if not self._coordinator.active and not self._coordinator.failures:
            self._busy_since_s = self._clock()
        began_s = {one: at_s for one, at_s in self._attempts_began_s.items() if self._coordinator.is_current(one)}
        for txid in txids:
            attempt = self._coordinator.begin(txid)
            began_s[attempt] = self._clock()
            values = [attempt, self._progress.metadata.get(txid), self._coordinator.committed]
            self.collector.emit(values, (Tree.BATCH, attempt), BATCH_STREAM)
        self._attempts_began_s = began_s

    def _plan(self) -> Sequence[int]:
        """Return the transactions to begin now. Their metadata is planned or stored.

        Trouble or slowness of the source holds back no transaction that could begin before.
        """
        assert self._coordinator is not None and self._progress is not None
        txids: list[int] = []
        most = MAX_GROUP if self._source.begins_together else 1
        until_s = self._clock() + MAX_PLANNING_S
        while len(txids) < most and not (txids and self._clock() > until_s):
            txid = self._coordinator.wants(self._clock(), len(txids))
            try:
                if txid is None or not self._has_batch(txid):
                    break
            except FailedException as error:
                pause_s = RETRY_S
                if isinstance(error, ReportedFailedException):
                    self.collector.report_error(error)
                    pause_s = min(MAX_SOURCE_PAUSE_S, RETRY_S * 2 ** min(self._complaints, 10))
                    self._complaints += 1
                self._begin_at_s = self._clock() + pause_s
                break
            except UnavailableError:
                if not txids:
                    raise
                break
            self._complaints = 0
            txids.append(txid)
        return txids

    def _has_batch(self, txid: int) -> bool:
        """Plan the metadata of a transaction if it has none. False if the source has no batch for it yet."""
        assert self._progress is not None
        if self._progress.has_metadata(txid):
            return True
        is_ready = self._source.is_ready()
        if is_ready is None:  # a forgotten return would stop the topology silently
            raise ReportedFailedException(
                f"component {self.context.component_id!r}: is_ready returned None; True or False was expected"
            )
        if not is_ready:
            return False
        made = self._source.initialize_transaction(txid, self._progress.previous_metadata(txid))
        try:
            self._progress.plan_metadata(txid, made)
        except UnregisteredTypeError as error:
            raise UnregisteredTypeError(
                f"component {self.context.component_id!r}: initialize_transaction returned {made!r}: {error}"
            ) from None
        return True
