"""What a user of the simulated topology would have written: a source of numbered tuples, spouts, bolts, and the wiring.

    chain            spout -> partial -> counts*
    two committers   spout -> partial -> counts*, partial -> buckets*
    diagram          spout -> partial -> counts*, partial -> pass, counts -> pass, pass -> through*     (* commits)

A value is the list of all numbers that were counted under its key: so a table tells which tuple was counted twice, or
not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from transaction_nouns import ID, SPOUT, Rules, Shape

from tupletree.attempt import TransactionAttempt
from tupletree.component import BasicBolt
from tupletree.topology import Topology
from tupletree.transactional.bolts import BatchBolt, BatchCollector, Committer, GroupCommitter
from tupletree.transactional.builder import TransactionalTopologyBuilder
from tupletree.transactional.coordinated_bolt import CoordinatedBolt
from tupletree.transactional.emitter_bolt import EmitterBolt
from tupletree.transactional.spouts import (
    CommittingEmitter,
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
    TransactionalSpout,
    TransactionCoordinator,
    TransactionEmitter,
)
from tupletree.transactional.streams import coordinator_id
from tupletree.tuples import Tuple

if TYPE_CHECKING:
    from transaction_world import World

FIELDS = ["attempt", "key", "bucket", "numbers"]
PARTITION = 1000  # the numbers of partition p are p * PARTITION, p * PARTITION + 1, …


def key_of(number: int) -> str:
    return f"k{number % 5}"


def bucket_of(number: int) -> str:
    return f"b{number % 5 % 2}"


KEYS: Mapping[str, Callable[[int], list[str]]] = {
    "counts": lambda number: [key_of(number)],
    "buckets": lambda number: [bucket_of(number)],
    "through": lambda number: [f"partial {key_of(number)}", f"counts {key_of(number)}"],
}
"""Under which keys of each committer's table a number is counted."""

COMMITTERS = {"chain": ["counts"], "two committers": ["counts", "buckets"], "diagram": ["counts", "through"]}


class InWorld:
    """The way from a component to its world; components are copied, the world is not."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __deepcopy__(self, memo: object) -> InWorld:
        return self

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return object, ()

    def open_store(self, conf: Any) -> Any:
        return self.world.open_store()

    def clock(self) -> float:
        return self.world.now_s


class Source:
    """Partitions of numbered tuples that arrive as time goes by, and may go away for a while."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.away: set[int] = set()

    def available(self, partition: int) -> int:
        shape = self.world.shape
        if self.world.now_s >= shape.arrival_s:
            return shape.length
        return int(shape.length * self.world.now_s / shape.arrival_s)

    def next_end(self, partition: int, start: int) -> int:
        """Where a new batch that begins at ``start`` ends."""
        return max(start, min(self.available(partition), start + self.world.rng.randint(0, self.world.shape.largest)))

    def emit(
        self, attempt: TransactionAttempt, partition: int, start: int, end: int, collector: BatchCollector
    ) -> None:
        self.world.mishap()
        numbers = [partition * PARTITION + offset for offset in range(start, end)]
        self.world.judge.emits(attempt, partition, numbers)
        for number in numbers:
            collector.emit([attempt, [number]])
        self.world.mishap()


# Spouts


class NumbersCoordinator(TransactionCoordinator, PartitionCoordinator):
    def __init__(self, inside: InWorld) -> None:
        self.world = inside.world

    def is_ready(self) -> bool:
        return not self.world.judge.is_all_committed

    def initialize_transaction(self, txid: int, previous: Any) -> Any:
        self.world.mishap()
        starts = [end for _, end in previous] if previous else [0] * self.world.shape.partitions
        return [[start, self.world.source.next_end(partition, start)] for partition, start in enumerate(starts)]

    def num_partitions(self) -> int:
        return self.world.shape.partitions


class NumbersEmitter(TransactionEmitter):
    def __init__(self, inside: InWorld, index: int, tasks: int) -> None:
        self.world = inside.world
        self.index = index
        self.tasks = tasks

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
        for partition in range(self.index, len(metadata), self.tasks):
            self.world.source.emit(attempt, partition, *metadata[partition], collector)


class CommittingNumbersEmitter(NumbersEmitter, CommittingEmitter):
    """It has nothing to commit: what matters is that it is asked."""

    def commit(self, attempt: TransactionAttempt) -> None:
        self.world.mishap()


class Numbers(TransactionalSpout):
    outputs = ["attempt", "numbers"]

    def __init__(self, inside: InWorld) -> None:
        self.inside = inside

    def coordinator(self, conf: Any, context: Any) -> TransactionCoordinator:
        return NumbersCoordinator(self.inside)

    def emitter(self, conf: Any, context: Any) -> TransactionEmitter:
        tasks = len(context.component_tasks(context.component_id))
        emitter = CommittingNumbersEmitter if isinstance(self, Committer) else NumbersEmitter
        return emitter(self.inside, context.task_index, tasks)


class CommittingNumbers(Numbers, Committer):
    pass


class GroupCommittingNumbers(Numbers, GroupCommitter):
    pass


class NumbersPartitionEmitter(PartitionEmitter, OpaquePartitionEmitter):
    def __init__(self, inside: InWorld) -> None:
        self.world = inside.world

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        start = previous[1] if previous else 0
        end = self.world.source.next_end(partition, start)
        self.world.source.emit(attempt, partition, start, end, collector)
        return [start, end]

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, metadata: Any
    ) -> Any:
        if self.world.shape.kind == "partitioned":
            return self.world.source.emit(attempt, partition, *metadata, collector)
        start = metadata or 0
        end = start if partition in self.world.source.away else self.world.source.next_end(partition, start)
        self.world.source.emit(attempt, partition, start, end, collector)
        return end


class PartitionedNumbers(PartitionedTransactionalSpout, OpaquePartitionedTransactionalSpout):
    outputs = ["attempt", "numbers"]

    def __init__(self, inside: InWorld) -> None:
        self.inside = inside

    def coordinator(self, conf: Any, context: Any) -> PartitionCoordinator:
        return NumbersCoordinator(self.inside)

    def emitter(self, conf: Any, context: Any) -> Any:
        return NumbersPartitionEmitter(self.inside)


# Bolts


class Partial(BatchBolt):
    outputs = FIELDS

    def __init__(self, inside: InWorld) -> None:
        self.inside = inside

    def prepare(self, conf: Any, context: Any, collector: Any, batch_id: TransactionAttempt) -> None:
        self.inside.world.mishap()
        self.found: dict[str, list[int]] = {}

    def execute(self, tup: Tuple) -> None:
        self.inside.world.judge.takes(self.batch_id, tup)
        self.inside.world.mishap()
        self.found.setdefault(key_of(tup["numbers"][0]), []).extend(tup["numbers"])

    def finish_batch(self) -> None:
        self.inside.world.mishap()
        for numbers in self.found.values():
            self.collector.emit(row(self.batch_id, numbers))


class PartialOfEach(BasicBolt):
    outputs = FIELDS

    def __init__(self, inside: InWorld) -> None:
        self.inside = inside

    def execute(self, tup: Tuple, collector: Any) -> None:
        self.inside.world.judge.takes(collector.attempt, tup)
        self.inside.world.mishap()
        collector.emit(row(tup["attempt"], tup["numbers"]))


class Commit(BatchBolt):
    """Appends the numbers of a batch to those stored under their keys, and passes them on."""

    outputs = FIELDS

    def __init__(self, inside: InWorld, values: Any, field: str) -> None:
        self.inside = inside
        self.values = values
        self.field = field

    def prepare(self, conf: Any, context: Any, collector: Any, batch_id: TransactionAttempt) -> None:
        self.found: dict[str, list[int]] = {}

    def execute(self, tup: Tuple) -> None:
        self.inside.world.judge.takes(self.batch_id, tup)
        self.inside.world.mishap()
        self.found.setdefault(tup[self.field], []).extend(tup["numbers"])

    def finish_batch(self) -> None:
        world = self.inside.world
        world.mishap()
        world.judge.finishes(self.context, self.batch_id)
        self.values.update(self.batch_id, {key: appending(numbers) for key, numbers in self.found.items()})
        world.judge.has_written(self.batch_id)
        world.mishap()
        if self.context.component_id == "counts":
            for numbers in self.found.values():
                self.collector.emit(row(self.batch_id, numbers))


class CommitInGroups(Commit, GroupCommitter):
    """The same for transactions that commit in groups."""


class Pass(BatchBolt):
    """Passes on what comes from upstream at once, what comes from the committer when it has it all."""

    outputs = FIELDS

    def __init__(self, inside: InWorld) -> None:
        self.inside = inside

    def prepare(self, conf: Any, context: Any, collector: Any, batch_id: TransactionAttempt) -> None:
        self.later: list[list[Any]] = []

    def execute(self, tup: Tuple) -> None:
        self.inside.world.judge.takes(self.batch_id, tup)
        passed = [self.batch_id, f"{tup.source_component} {tup['key']}", tup["bucket"], tup["numbers"]]
        if tup.source_component == "partial":
            self.collector.emit(passed)
        else:
            self.later.append(passed)

    def finish_batch(self) -> None:
        self.inside.world.mishap()
        self.inside.world.judge.finishes(self.context, self.batch_id)
        self.collector.emit_many(self.later)


def row(attempt: TransactionAttempt, numbers: list[int]) -> list[Any]:
    return [attempt, key_of(numbers[0]), bucket_of(numbers[0]), numbers]


def appending(numbers: Iterable[int]) -> Callable[[Any], Any]:
    return lambda old: [*(old or []), *numbers]


# The wiring


def build(world: World, shape: Shape, rules: Rules) -> Topology:
    """The topology as the builder wires it, over the world's clock, stores and databases."""
    inside = InWorld(world)
    committing = GroupCommittingNumbers if shape.in_groups else CommittingNumbers
    spouts: dict[str, Callable[[], Any]] = {
        "generic": lambda: committing(inside) if shape.largest % 2 else Numbers(inside),
        "partitioned": lambda: rules.partitioned(ID, PartitionedNumbers(inside), open_store=inside.open_store),
        "opaque": lambda: rules.opaque(ID, PartitionedNumbers(inside), open_store=inside.open_store),
    }
    spout = spouts[shape.kind]()
    make_map = rules.map_of(shape)
    builder = TransactionalTopologyBuilder(ID, SPOUT, spout, parallelism=shape.tasks[SPOUT])
    partial = Partial(inside) if shape.partial == "batch" else PartialOfEach(inside)
    builder.set_bolt("partial", partial, shape.tasks["partial"]).shuffle_grouping(SPOUT)
    for name in COMMITTERS[shape.form]:
        field = "bucket" if name == "buckets" else "key"
        source = "pass" if name == "through" else "partial"
        kind = CommitInGroups if shape.in_groups and shape.kind != "opaque" else Commit
        commit = kind(inside, make_map(world.databases[name], name), field)
        builder.set_committer_bolt(name, commit, shape.tasks[name]).fields_grouping(source, [field])
    if shape.form == "diagram":
        builder.set_bolt("pass", Pass(inside), shape.tasks["pass"]).shuffle_grouping("partial").shuffle_grouping(
            "counts"
        )
    topology = builder.create_topology()
    coordinator = rules.coordinator(ID, spout, open_store=inside.open_store, clock=inside.clock)
    coordinator.commits_in_groups = shape.in_groups
    replacements: dict[str, Any] = {coordinator_id(SPOUT): coordinator}
    for name, definition in topology.components.items():
        if isinstance(definition.component, EmitterBolt):
            replacements[name] = rules.emitter(spout)
        elif isinstance(definition.component, CoordinatedBolt):
            replacements[name] = rules.bolt(definition.component.bolt, definition.component.is_committer)
            replacements[name].sources = definition.component.sources
    return topology.replacing(replacements)
