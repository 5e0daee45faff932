"""A small cluster in one heap of events: a spout, bolts and ackers over a simulated network and clock.

The ledgers and the spout's pending map are the real ones. Bolts follow Storm's rules: a fresh edge for each anchor and
receiving task, children accumulated in the anchor, one combined update for each root. Everything else is decided by one
seeded generator, so a seed is a whole history.

The network. What the real one may do to a message, and what this one does:

* lose it: a gRPC stream that breaks loses a suffix of what was sent. Here every message may get lost by itself, which
  reaches all those states and more. The sender may learn of it and fail the roots concerned, or not. It may also fail
  roots of messages that did arrive, as a worker does whose updates or frames were unconfirmed when a stream broke.
* delay and reorder it: within a stream there is order, between streams there is none. Here there is none at all.
* duplicate it: gRPC delivers a message once or not at all, and nobody here sends an init, an ack or a tuple again. But
  fails are repeated (a reconnecting worker fails what may already have been failed), resets are, and a verdict comes
  twice while a shard has two ackers. So exactly these are duplicated. `hostile` duplicates inits and acks too: trees
  may then expire for nothing, but the invariants must hold.

Faults end at `FAULTS_END_S`; from then on every message that is sent arrives and every bolt acks, so every message of
the spout must be acked in the end.
"""

from __future__ import annotations

import heapq
import random
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

from tracking_nouns import Acker, BoltWorker, Rules, SimTuple, Updates, Violation

from tupletree.acker.ledger import Verdicts
from tupletree.worker.rotating_map import RotatingMap

TIMEOUT_S = 1.0
FAULTS_END_S = 12.0
END_S = 60.0
SHARDS = 3
STAGES = 3
WORKERS = 3
SPOUT_TASK = 1


class World:
    """One history. ``run`` raises Violation, with the story of the root concerned."""

    def __init__(self, seed: int, rules: Rules | None = None, *, messages: int = 12, hostile: bool = False) -> None:
        self.rng = random.Random(seed)
        self.rules = rules or Rules()
        self.hostile = hostile
        self.loss = self.rng.choice([0.0, 0.02, 0.1])
        self.slowest_s = self.rng.choice([0.01, 0.2, 0.8])
        self.crashes = self.rng.random() < 0.6
        self.now_s = 0.0
        self.steps = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0

        self.ackers = [Acker(0, self.rules.ledger), Acker(1, self.rules.ledger)]
        self.owners = [self.ackers[shard % 2] for shard in range(SHARDS)]
        self.draining: dict[int, Acker] = {}  # shard -> the acker that finishes its old trees
        self.workers = [BoltWorker() for _ in range(WORKERS)]

        self.pending: RotatingMap[int, int] = RotatingMap(2)  # the spout's: root -> message
        self.unacked = set(range(messages))
        self.emitted: dict[int, int] = {}
        self.ended: dict[int, str] = {}
        self.outstanding: defaultdict[int, set[int]] = defaultdict(set)  # the truth: root -> tuples not processed
        self.story: defaultdict[int, list[str]] = defaultdict(list)

        for message in range(messages):
            self.at(self.rng.uniform(0, FAULTS_END_S * 0.8), partial(self.emit, message))
        self.every(TIMEOUT_S, self.rotate_pending)
        self.every(TIMEOUT_S, self.rotate_ledgers)
        if self.crashes:
            self.every(1.7, self.crash_something)

    # Time

    @property
    def faulty(self) -> bool:
        return self.now_s < FAULTS_END_S

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (self.now_s + delay_s, self._numbers, action))

    def every(self, period_s: float, action: Callable[[], None]) -> None:
        def again() -> None:
            action()
            self.at(period_s, again)

        self.at(self.rng.uniform(0.1, 1.0) * period_s, again)

    def run(self) -> World:
        while self.unacked or len(self.pending):
            self.now_s, _, action = heapq.heappop(self._events)
            action()
            self.steps += 1
            self.check()
            if self.now_s > END_S:
                waiting = sorted(self.pending)
                raise self.violation(f"messages {sorted(self.unacked)} were never acked", waiting)
        return self

    # The invariants

    def check(self) -> None:
        """After every step: each tree the spout emitted is pending or has ended once; the ledgers' books are right."""
        if len(self.emitted) != len(self.ended) + len(self.pending):
            raise self.violation("a tree is neither pending nor ended", set(self.emitted) - set(self.ended))
        for acker in self.ackers:
            for ledger in acker.ledgers.values():
                if not 0 <= ledger.trees <= len(ledger):
                    raise self.violation(f"{ledger.trees} trees among {len(ledger)} entries", ())

    def check_acked(self, root: int) -> None:
        """A tree is acked only when all its tuples were processed, and somebody emitted it."""
        if root not in self.emitted:
            raise self.violation("acked, but never emitted", [root])
        if self.outstanding[root]:
            raise self.violation(f"acked while tuples {sorted(self.outstanding[root])} are not processed", [root])

    def violation(self, what: str, roots: Iterable[int]) -> Violation:
        told = [f"{root:016x}: {line}" for root in list(roots)[:3] for line in self.story[root]]
        return Violation("\n".join([f"at {self.now_s:.3f} s: {what}", *told]))

    def tell(self, root: int, line: str) -> None:
        self.story[root].append(f"{self.now_s:.3f} {line}")

    # The network

    def send(self, deliver: Callable[[], None], lost: Callable[[], None], *, repeatable: bool = False) -> None:
        """Deliver once, twice or not at all; ``lost`` is what the sender does when its stream breaks."""
        if self.faulty and self.rng.random() < self.loss:
            if self.rng.random() < 0.7:
                self.at(self.rng.uniform(0, 0.5), lost)
            return
        self.at(self._delay_s(), deliver)
        if not self.faulty:
            return
        if (repeatable or self.hostile) and self.rng.random() < 0.1:
            self.at(self._delay_s(), deliver)
        if self.rng.random() < self.loss / 4:  # arrived, but unconfirmed when the stream broke
            self.at(self.rng.uniform(0, 0.5), lost)

    def _delay_s(self) -> float:
        return self.rng.uniform(0.0005, self.slowest_s if self.faulty else 0.005)

    def send_tuple(self, tup: SimTuple) -> None:
        worker = self.rng.choice(self.workers)  # the incarnation it is addressed to

        def deliver() -> None:
            if worker.alive:
                self.execute(worker, tup)

        # A tuple is never sent twice, not even in a hostile world: its bolt would process it twice.
        hostile, self.hostile = self.hostile, False
        self.send(deliver, lambda: self.send_fails(tup.edges))
        self.hostile = hostile

    def send_updates(self, updates: Updates) -> None:
        """One message for each shard and each acker of it."""
        parts: defaultdict[int, Updates] = defaultdict(Updates)
        for root, value in updates.inits:
            parts[root % SHARDS].inits.append((root, value))
        for root, value in updates.acks:
            parts[root % SHARDS].acks.append((root, value))
        for root in updates.fails:
            parts[root % SHARDS].fails.append(root)
        for root in updates.resets:
            parts[root % SHARDS].resets.append(root)
        for shard, part in parts.items():
            for acker in dict.fromkeys((self.owners[shard], self.draining.get(shard, self.owners[shard]))):
                self._send_part(acker, shard, part)

    def _send_part(self, acker: Acker, shard: int, part: Updates) -> None:
        repeatable = not part.inits and not part.acks
        lost = lambda: self.send_fails(part.roots())  # noqa: E731
        self.send(lambda: self.apply(acker, shard, part), lost, repeatable=repeatable)

    def send_fails(self, roots: Iterable[int]) -> None:
        self.send_updates(Updates(fails=list(roots)))

    # The spout

    def emit(self, message: int) -> None:
        """A new tree: one edge for each receiving task, none if nobody consumes it."""
        root = self.rng.getrandbits(64)
        edges = self.rules.edges(self.rng, self.rng.choice([0, 1, 1, 2, 3]))
        value = 0
        for edge in edges:
            value ^= edge
        self.emitted[root] = message
        self.pending.put(root, message)
        self.tell(root, f"emitted for message {message} with {len(edges)} copies")
        tuples = [self.new_tuple(0, {root: edge}) for edge in edges]
        sends: list[Callable[[], None]] = [partial(self.send_updates, Updates(inits=[(root, value)]))]
        sends += [partial(self.send_tuple, tup) for tup in tuples]
        self.rng.shuffle(sends)
        for send in sends:
            send()

    def new_tuple(self, stage: int, edges: dict[int, int]) -> SimTuple:
        self._numbers += 1
        for root in edges:
            self.outstanding[root].add(self._numbers)
            self.tell(root, f"tuple {self._numbers} of stage {stage}")
        return SimTuple(self._numbers, stage, edges)

    def on_verdict(self, kind: str, root: int) -> None:
        if kind == "reset":
            message = self.pending.get(root)
            if message is not None:
                self.pending.put(root, message)
        elif root in self.pending:
            self.end(root, kind)

    def end(self, root: int, how: str) -> None:
        message = self.emitted[root]
        self.pending.pop(root)
        if root in self.ended:
            raise self.violation(f"ended twice: {self.ended[root]}, then {how}", [root])
        self.ended[root] = how
        self.tell(root, how)
        if how == "acked":
            self.unacked.discard(message)
        elif message in self.unacked:
            self.at(self.rng.uniform(0, 0.5), lambda: self.emit(message))

    def rotate_pending(self) -> None:
        for root, message in self.pending.rotate().items():
            self.pending.put(root, message)
            self.end(root, "timed out")

    # Bolts

    def execute(self, worker: BoltWorker, tup: SimTuple) -> None:
        """Emit children anchored to this tuple and maybe another one held here, then ack, fail, hold or forget it."""
        anchors = [tup]
        if worker.held and self.rng.random() < 0.5:
            anchors.append(worker.held.pop(self.rng.randrange(len(worker.held))))
        fate = self.rng.random() if self.faulty else 1.0
        if tup.stage + 1 < STAGES:
            for _ in range(self.rng.choice([0, 1, 2])):
                self.emit_anchored(anchors, self.rng.choice([1, 1, 2]))
        if fate < 0.03:
            self.tell_all(tup, "failed by its bolt")
            self.send_fails(tup.edges)
            anchors.remove(tup)
        elif fate < 0.05:
            self.tell_all(tup, "forgotten by its bolt")
            anchors.remove(tup)
        elif fate < 0.2:
            worker.held.append(tup)  # to be joined with another one, or to time out
            anchors.remove(tup)
            if fate < 0.1:
                self.send_updates(Updates(resets=list(tup.edges)))
        for anchor in anchors:
            self.ack(worker, anchor)

    def tell_all(self, tup: SimTuple, what: str) -> None:
        for root in tup.edges:
            self.tell(root, f"tuple {tup.number} {what}")

    def emit_anchored(self, anchors: list[SimTuple], copies: int) -> None:
        """One emit to ``copies`` receiving tasks: for each of them, a fresh edge for each anchor."""
        edges = iter(self.rules.edges(self.rng, copies * len(anchors)))
        for _ in range(copies):
            carried: dict[int, int] = {}
            for anchor in anchors:
                edge = next(edges)
                anchor.children ^= edge
                for root in anchor.edges:
                    carried[root] = carried.get(root, 0) ^ edge
            self.send_tuple(self.new_tuple(anchors[0].stage + 1, carried))

    def ack(self, worker: BoltWorker, tup: SimTuple) -> None:
        """Tell each root's acker; updates of one flush are combined for each root."""
        for root, edge in tup.edges.items():
            self.outstanding[root].discard(tup.number)
            first, *more = self.rules.ack_values(edge, tup.children)
            worker.acks[root] = worker.acks.get(root, 0) ^ first
            for value in more:
                self.send_updates(Updates(acks=[(root, value)]))
        self.tell_all(tup, "acked by its bolt")
        if not worker.flushing:
            worker.flushing = True
            self.at(self.rng.choice([0.0, 0.001, 0.05]), lambda: self.flush(worker))

    def flush(self, worker: BoltWorker) -> None:
        worker.flushing = False
        acks, worker.acks = worker.acks, {}
        if worker.alive and acks:
            self.send_updates(Updates(acks=list(acks.items())))

    # Ackers

    def apply(self, acker: Acker, shard: int, updates: Updates) -> None:
        if not acker.alive:
            return
        verdicts = acker.ledgers[shard].apply(
            array("Q", [root for root, _ in updates.inits]),
            array("Q", [value for _, value in updates.inits]),
            array("I", [SPOUT_TASK] * len(updates.inits)),
            array("Q", [root for root, _ in updates.acks]),
            array("Q", [value for _, value in updates.acks]),
            array("Q", updates.fails),
            array("Q", updates.resets),
            self.now_s,
        )
        self.send_verdicts(acker, verdicts)

    def rotate_ledgers(self) -> None:
        for acker in self.ackers:
            for ledger in acker.ledgers.values():
                self.send_verdicts(acker, ledger.rotate(self.now_s))

    def send_verdicts(self, acker: Acker, verdicts: Verdicts) -> None:
        for kind in ("acked", "failed", "expired", "reset"):
            for root in getattr(verdicts, kind).get(SPOUT_TASK, ()):
                self.tell(root, f"acker {acker.name} says {kind}")
                if kind == "acked":
                    self.check_acked(root)
                self.send(partial(self.on_verdict, kind, root), lambda: None, repeatable=True)

    # Crashes

    def crash_something(self) -> None:
        if not self.faulty:
            for acker in dict.fromkeys(self.draining.values()):
                self.retire(acker)
            return
        self.rng.choice([self.crash_worker, self.crash_acker, self.drain_acker])()

    def crash_worker(self) -> None:
        """Lost: what its bolts hold, what was not flushed, messages on their way to it. A new one takes its place."""
        place = self.rng.randrange(WORKERS)
        self.workers[place].alive = False
        self.workers[place] = BoltWorker()

    def crash_acker(self) -> None:
        """Its ledgers are gone, its shards move. The spout may hear of it, then it fails what it had pending there."""
        victim = self.rng.choice(self.ackers)
        lost = [shard for shard in range(SHARDS) if self.owners[shard] is victim]
        self.replace(victim)
        if self.rng.random() < 0.5:
            for root in list(self.pending):
                if root % SHARDS in lost:
                    self.end(root, "lost with its acker")

    def drain_acker(self) -> None:
        """Its shards move for new trees; updates go to it as well until it retires."""
        victim = self.rng.choice(self.ackers)
        if victim in self.draining.values():
            self.retire(victim)
            return
        heir = Acker(len(self.ackers) + victim.name, self.rules.ledger)
        self.ackers.append(heir)
        for shard, owner in enumerate(self.owners):
            if owner is victim:
                self.owners[shard], self.draining[shard] = heir, victim

    def retire(self, acker: Acker) -> None:
        """A draining acker whose old trees have ended, or whose time is over, leaves."""
        if any(owner is acker for owner in self.owners):
            return
        acker.alive = False
        self.ackers.remove(acker)
        self.draining = {shard: owner for shard, owner in self.draining.items() if owner is not acker}

    def replace(self, victim: Acker) -> None:
        victim.alive = False
        self.ackers.remove(victim)
        self.draining = {shard: owner for shard, owner in self.draining.items() if owner is not victim}
        if all(owner is not victim for owner in self.owners):
            return
        successor = Acker(victim.name + 10, self.rules.ledger)
        self.ackers.append(successor)
        self.owners = [successor if owner is victim else owner for owner in self.owners]
