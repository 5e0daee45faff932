"""What must hold: watched at the store, at the databases, in the components, and after every step in the coordinators.

The judge learns the truth from three places only: what the source emitted for each attempt, what the store was made to
hold, and which trees are complete. It compares it with what bolts see and with what the databases hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transaction_components import COMMITTERS, KEYS, PARTITION
from transaction_nouns import ID, SPOUT, Violation
from transaction_tasks import Incarnation

from tupletree._stores.node_encoding import decode_stored
from tupletree._stores.nodes import Create, Put, Write
from tupletree.attempt import TransactionAttempt, first_attempt
from tupletree.component import TopologyContext
from tupletree.transactional.coordinator import Phase
from tupletree.transactional.databases.contract import Row
from tupletree.transactional.layout import decode_progress, epoch_path, partition_path, progress_path
from tupletree.tuples import Tuple

if TYPE_CHECKING:
    from transaction_world import World

Group = tuple[TransactionAttempt, ...]
Contents = dict[int, list[int]]
"""The numbers of a batch by partition."""


class Judge:
    def __init__(self, world: World) -> None:
        self.world = world
        self.committed = 0
        self.committing: Group = ()
        self.holder: Incarnation | None = None  # who raised the epoch last
        self.truth: dict[int, list[int]] = {partition: [] for partition in range(world.shape.partitions)}
        self.contents: defaultdict[TransactionAttempt, Contents] = defaultdict(dict)
        self.batches: dict[tuple[int, int], list[int]] = {}  # (txid, partition) -> numbers of a transactional batch
        self.recorded: dict[TransactionAttempt, Group] = {}  # as about to commit
        self.written: set[tuple[Incarnation, TransactionAttempt]] = set()  # by whom a commit reached the database
        self.finished: defaultdict[TransactionAttempt, set[int]] = defaultdict(set)  # tasks that finished in the commit
        self.replays = 0

    @property
    def is_all_committed(self) -> bool:
        return sum(map(len, self.truth.values())) == self.world.shape.length * self.world.shape.partitions

    def violation(self, what: str, txid: int | None) -> Violation:
        return self.world.violation(what, txid)

    # What components do

    def emits(self, attempt: TransactionAttempt, partition: int, numbers: list[int]) -> None:
        self.world.tell(attempt.txid, f"{self.world.running[-1]} emits {numbers} for {attempt}")
        if partition in self.contents[attempt]:
            raise self.violation(f"partition {partition} of {attempt} is emitted twice", attempt.txid)
        self.contents[attempt][partition] = numbers

    def reports(self, sender: Incarnation, attempt: TransactionAttempt) -> None:
        """A task says that it has finished a batch. A transactional batch that was reported stays as it is."""
        self.world.tell(attempt.txid, f"{sender} reports {attempt}")
        if sender.place.definition.id != SPOUT or self.world.shape.kind == "opaque":
            return
        emitters = self.world.tasks[SPOUT]
        for partition, numbers in self.contents[attempt].items():
            if partition % len(emitters) == emitters.index(sender.place.task):
                first = self.batches.setdefault((attempt.txid, partition), numbers)
                if first != numbers:
                    raise self.violation(f"{attempt} has {numbers}, it was {first} before", attempt.txid)

    def takes(self, attempt: TransactionAttempt, tup: Tuple) -> None:
        """A component is handed a tuple while it processes a batch."""
        if tup["attempt"] != attempt:
            raise self.violation(f"{self.world.running[-1]} counts {tup} with {attempt}", attempt.txid)
        contents = self.contents[attempt].values()
        if not all(any(number in numbers for numbers in contents) for number in tup["numbers"]):
            raise self.violation(f"{self.world.running[-1]} counts {tup}, which was not emitted", attempt.txid)

    def finishes(self, context: TopologyContext, attempt: TransactionAttempt) -> None:
        """A component finishes a batch in the commit phase."""
        self.world.tell(attempt.txid, f"{self.world.running[-1]} finishes {attempt}")
        if attempt not in self.recorded:
            raise self.violation(f"task {context.task_id} commits {attempt}, which is not recorded", attempt.txid)
        first = self.recorded[attempt][0]
        if first.txid > self.committed + 1:
            raise self.violation(f"task {context.task_id} commits {attempt} after {self.committed}", attempt.txid)
        before = [one for one in self.recorded[attempt] if one.txid == attempt.txid - 1]
        is_committer = context.component_id in COMMITTERS[self.world.shape.form]
        if is_committer and any((self.world.running[-1], one) not in self.written for one in before):
            raise self.violation(f"task {context.task_id} commits {attempt} before {before[0]}", attempt.txid)
        self.finished[attempt].add(context.task_id)

    def has_written(self, attempt: TransactionAttempt) -> None:
        """A committer has updated its map."""
        self.written.add((self.world.running[-1], attempt))

    def emitted(self, owner: Incarnation, name: str, attempts: Sequence[TransactionAttempt]) -> None:
        attempt = attempts[0]
        if name == "commit":
            self.world.network.counts["groups"] += len(attempts) > 1
        for one in attempts if name == "commit" else ():
            if self.recorded.get(one) != tuple(attempts):
                raise self.violation(f"{owner} emits the commit of {one}, which is not recorded", one.txid)
            if not self.is_complete("batch", one):
                raise self.violation(f"{owner} emits the commit of {one}; its batch tree is not complete", one.txid)
        self.world.network.counts["emitted by one of two coordinators"] += len(self.world.coordinators) > 1
        self.replays += name == "batch" and attempt.attempt > first_attempt(1) + attempt.txid - 1

    # What is stored

    def stored(self, writer: Incarnation, writes: Sequence[Write]) -> None:
        for write in writes:
            if not isinstance(write, Create | Put):
                continue
            if write.path == epoch_path(ID):
                self.holder = writer
            elif write.path == progress_path(ID):
                self._recorded(writer, *decode_progress(write.path, write.data))

    def _recorded(self, writer: Incarnation, committed: int, committing: Group) -> None:
        txid = committed + 1
        self.world.tell(None, f"{writer} records {committed} as committed, {committing} as committing")
        if writer is not self.holder:
            raise self.violation(f"{writer} records {committed} as committed; {self.holder} has taken over", txid)
        if committed not in (self.committed, self.committed + max(1, len(self.committing))):
            raise self.violation(f"{committed} is recorded as committed after {self.committed}", txid)
        if [one.txid for one in committing] != list(range(txid, txid + len(committing))):
            raise self.violation(f"{committing} is about to commit after {committed}", txid)
        if len(committing) > 1 and not self.world.shape.in_groups:
            raise self.violation(f"{committing} is a group", txid)
        if committed > self.committed:
            if not self.committing:
                raise self.violation(f"transaction {txid} is committed, but no attempt of it was committing", txid)
            if not self.is_complete("commit", self.committing[0]):
                what = f"{self.committing[0]} is recorded as committed; its commit tree is not complete"
                raise self.violation(what, self.committing[0].txid)
            for attempt in self.committing:
                self._settle(attempt)
            self.world.network.counts["committed amid faults"] += self.world.is_faulty
            self.check_tables(committed)
        self.committed, self.committing = committed, committing
        self.recorded |= dict.fromkeys(committing, committing)

    def _settle(self, attempt: TransactionAttempt) -> None:
        """A transaction is recorded as committed: in the attempt that was recorded as committing."""
        txid = attempt.txid
        late = [*COMMITTERS[self.world.shape.form], *(["pass"] if self.world.shape.form == "diagram" else [])]
        for task in (task for name in late for task in self.world.tasks[name]):
            if task not in self.finished[attempt]:
                raise self.violation(f"{attempt} is recorded as committed; task {task} has not finished it", txid)
        contents = self.contents[attempt]
        for partition, numbers in self.truth.items():
            begin = partition * PARTITION + len(numbers)
            emitted = contents.get(partition, [])
            if emitted != list(range(begin, begin + len(emitted))):
                raise self.violation(f"{attempt} skips or repeats: {emitted} instead of {begin}, …", txid)
            numbers.extend(emitted)

    def is_complete(self, name: str, attempt: TransactionAttempt) -> bool:
        tree = self.world.trees.of.get((name, attempt))
        return tree is not None and tree.verdict == "acked"

    def check_tables(self, committed: int) -> None:
        """Each table holds the effect of every committed transaction once, whatever the next one has done already."""
        numbers = [number for partition in self.truth.values() for number in partition]
        for table in COMMITTERS[self.world.shape.form]:
            expected: defaultdict[str, list[int]] = defaultdict(list)
            for number in numbers:
                for key in KEYS[table](number):
                    expected[key].append(number)
            rows = self.world.databases[table].read(table)
            found = {key: sorted(value) for key, row in rows.items() if (value := self._as_of(row, committed))}
            for key in sorted(expected.keys() | found.keys()):
                if found.get(key, []) != sorted(expected[key]):
                    what = f"table {table!r}, key {key!r} holds {found.get(key)}, the truth is {sorted(expected[key])}"
                    raise self.violation(f"with {committed} committed, {what}", committed)

    def _as_of(self, row: Row, committed: int) -> list[int]:
        """What a row held before the transaction that may be under way."""
        if row.txid <= committed:
            return list(row.value)
        groups = (group for one, group in self.recorded.items() if one.txid == row.txid)
        first = min((group[0].txid for group in groups), default=row.txid)
        if first > committed + 1:
            raise self.violation(f"a row of transaction {row.txid} while {committed} is committed", row.txid)
        if self.world.shape.kind == "opaque":
            return list(row.previous) if row.has_previous else []
        own = {n for (txid, _), numbers in self.batches.items() if committed < txid <= row.txid for n in numbers}
        return [number for number in row.value if number not in own]

    # After every step

    def check_coordinator(self, incarnation: Incarnation) -> None:
        """The invariants of coordinator.py."""
        coordinator: Any = incarnation.component._coordinator
        if coordinator is None:
            return
        active = list(coordinator.active.items())
        numbers = [transaction.attempt.attempt for _, transaction in active]
        txids = [txid for txid, _ in active]
        if txids != list(range(coordinator.committed + 1, coordinator.committed + 1 + len(active))):
            raise self.violation(f"I1: after {coordinator.committed}, {txids} are active", None)
        if len(active) > self.world.shape.max_active:
            raise self.violation(f"I1: {len(active)} transactions are active", None)
        committing = [txid for txid, one in active if one.phase is Phase.COMMITTING]
        if committing != txids[: len(committing)] or len(committing) > coordinator.max_group:
            raise self.violation(f"I2: {active} with {coordinator.committed} committed", None)
        if numbers != sorted(numbers) or len(set(numbers)) < len(numbers):
            raise self.violation(f"I3: attempts {numbers} are active", None)

    def check_end(self) -> None:
        """Nobody has anything to do: every tree has ended, little is left over, and the tables hold the truth."""
        self.check_tables(self.committed)
        if self.world.coordinator.current.pending:
            trees = list(self.world.coordinator.current.pending.values())
            raise self.violation(f"{len(trees)} trees have not ended, {trees[0]} for one", trees[0].attempt.txid)
        few = 2 * self.world.shape.max_active + 2
        for place in self.world.places.values():
            counts = getattr(place.current.component, "_counts", None)
            if counts is not None and len(counts.batches) > few:
                raise self.violation(f"{place.current} holds {len(counts.batches)} batches", None)
        left = {"transactions": len(self.world.store.children(f"/{ID}/coordinator/meta"))}
        for path in (partition_path(ID, partition) for partition in range(self.world.shape.partitions)):
            node = self.world.store.get(path)
            left[path] = 0 if node is None else len(decode_stored(path, node.data)[1])
        if max(left.values()) > few:
            raise self.violation(f"the store holds states of {left}", None)
