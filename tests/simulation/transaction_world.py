"""A transactional topology in one heap of events: the real coordinator, emitters, bolts, maps and progress.

Everything around them is simulated and decided by one seeded generator, so a seed is a whole history: the network and
the trees of control tuples (transaction_network), tasks that die or go on although they are replaced
(transaction_tasks), requests to the store and the databases that fail half-way (transaction_stores). What must hold is
in transaction_judge. docs/adr/0009-what-the-transaction-simulation-assumes.md says why the world may do what it does,
and why no more.

Faults end at ``faults.end_s``; from then on everything arrives, and every tuple of the source must be committed within
``PATIENCE_S``.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from transaction_components import COMMITTERS, Source, build
from transaction_judge import Judge
from transaction_network import TIMEOUT_S, Network, Trees
from transaction_nouns import SPOUT, Faults, Rules, Shape, Violation
from transaction_stores import Outside, SimulatedDatabase, SimulatedStore
from transaction_tasks import Incarnation, Place

from tupletree._stores.memory_nodes import MemoryStore
from tupletree.errors import FailedException, UnavailableError
from tupletree.parallelism import tasks_of
from tupletree.testing.simulation.workers import Killed
from tupletree.transactional.databases.memory import MemoryDatabase
from tupletree.transactional.streams import coordinator_id

PATIENCE_S = 60.0
POLL_S = 0.02
DEEPEST = 4  # pauses within pauses


class World:
    """One history. ``run`` raises Violation, with the story of the transaction if the world ``is_telling``."""

    def __init__(self, seed: int, rules: Rules | None = None, *, is_telling: bool = False) -> None:
        self.rng = random.Random(seed)
        self.rules = rules or Rules()
        self.is_telling = is_telling
        self.shape = Shape.draw(self.rng)
        for name, value in self.rules.shape.items():
            setattr(self.shape, name, value)
        self.faults = Faults.draw(self.rng)
        for name, value in self.rules.faults.items():
            setattr(self.faults, name, value)
        self.now_s = 0.0
        self.steps = 0
        self.crashes = 0
        self.story: list[tuple[float, int | None, str]] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0

        self.store = MemoryStore()
        self.store_back_s = 0.0
        self.outside = Outside(self)
        self.databases = {name: SimulatedDatabase(self, MemoryDatabase()) for name in COMMITTERS[self.shape.form]}
        self.source = Source(self)
        self.judge = Judge(self)
        self.network = Network(self)
        self.trees = Trees(self)
        self.running: list[Incarnation] = []  # the innermost last: who pauses lets others run
        self.conf = {"topology.max.spout.pending": self.shape.max_active}
        topology = build(self, self.shape, self.rules)
        self.tasks = {name: list(ids) for name, ids in tasks_of(topology.outline(), self.conf).items()}
        self.places = {
            task: Place(task, topology.components[name], topology) for name, ids in self.tasks.items() for task in ids
        }
        self.coordinator = self.places[self.tasks[coordinator_id(SPOUT)][0]]
        self.living: list[Incarnation] = []
        self.coordinators: list[Incarnation] = []

    # Time

    @property
    def is_faulty(self) -> bool:
        return self.now_s < self.faults.end_s

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (self.now_s + delay_s, self._numbers, action))

    def every(self, period_s: float, action: Callable[[], None]) -> None:
        """While there are faults."""

        def again() -> None:
            if self.is_faulty:
                action()
                self.at(self.rng.uniform(0.5, 1.5) * period_s, again)

        self.at(self.rng.uniform(0.1, 1.0) * period_s, again)

    def run(self) -> World:
        try:
            for place in self.places.values():
                self.replace(place)
            for incarnation in self.living:
                incarnation.start()
            self.every(self.faults.crash_every_s, self.crash_something)
            self.every(self.faults.break_every_s, self.network.break_some_link)
            self.every(self.faults.outage_every_s, self.lose_store)
            self.every(0.7, self.move_partition)
            self.at(self.faults.end_s, self.end_faults)
            while not self.judge.is_all_committed:
                self._next()
                if self.now_s > max(self.faults.end_s, self.shape.arrival_s) + PATIENCE_S:
                    raise self.violation("not everything was committed", self.judge.committed + 1)
            self._run_until(max(self.now_s, self.faults.end_s) + 2 * TIMEOUT_S)
            self.judge.check_end()
        except Violation:
            raise
        except Exception as error:
            raise self.violation(f"{type(error).__name__}: {error}", self.judge.committed + 1) from error
        return self

    def _next(self) -> None:
        self.now_s, _, action = heapq.heappop(self._events)
        action()
        self.steps += 1
        if self.rules.looks_inside:
            for incarnation in self.coordinators:
                self.judge.check_coordinator(incarnation)

    def _run_until(self, then_s: float) -> None:
        while self._events and self._events[0][0] <= then_s:
            self._next()
        self.now_s = then_s

    def pause(self, incarnation: Incarnation) -> None:
        """In the middle of a step of this incarnation the rest of the world goes on for a while."""
        if len(self.running) < DEEPEST:
            self.trees.delay_all(f"{incarnation} paused")
            self._run_until(self.now_s + self.rng.choice([0.01, 0.1, 1.5]))
            self.tell(None, f"{incarnation} goes on")
        if not incarnation.alive:
            raise Killed

    def delay_s(self, sender: Incarnation | None) -> float:
        if not self.is_faulty:
            return self.rng.uniform(0.0005, 0.005)
        slowest_s = 1.0 if sender is not None and sender.cut_off else self.faults.slowest_s
        return self.rng.uniform(0.0005, slowest_s)

    # What is told

    def tell(self, txid: int | None, line: str) -> None:
        """``txid`` None: of interest to all."""
        if self.is_telling:
            self.story.append((self.now_s, txid, line))

    def violation(self, what: str, txid: int | None) -> Violation:
        told = [f"{now_s:.4f} {line}" for now_s, other, line in self.story if other is None or other == txid]
        return Violation("\n".join([f"at {self.now_s:.4f} s, {self.shape}: {what}", *told]))

    # Tasks

    def open_store(self) -> SimulatedStore:
        return SimulatedStore(self, self.running[-1])

    def replace(self, place: Place) -> Incarnation:
        """A new incarnation takes a task over; the others learn of it one by one."""
        old = getattr(place, "current", None)
        new = Incarnation(self, place, old.number + 1 if old is not None else 1)
        place.current = new
        self.living.append(new)
        if place.is_spout:
            self.coordinators.append(new)
            self._poll(new)
        new.view.update({other.task: other.current for other in self.places.values() if hasattr(other, "current")})
        for other in self.living:
            if old is None or other is new:
                other.view[place.task] = new
            else:
                self.at(self.rng.uniform(0, 0.3), lambda other=other: self._learn(other, new))  # type: ignore[misc]
        return new

    def _learn(self, incarnation: Incarnation, new: Incarnation) -> None:
        if incarnation.view[new.place.task].number < new.number:
            incarnation.view[new.place.task] = new

    def _poll(self, incarnation: Incarnation) -> None:
        def again() -> None:
            if incarnation.alive:
                incarnation.step(incarnation.component.next_tuple)
                self.at(POLL_S, again)

        self.at(POLL_S, again)

    def died(self, incarnation: Incarnation, why: str) -> None:
        self.crashes += 1
        self.tell(None, f"{incarnation} dies: {why}")
        self.living.remove(incarnation)
        if incarnation.place.is_spout:
            self.coordinators.remove(incarnation)
        is_noticed = self.rng.random() < 0.5
        for tree in dict.fromkeys(incarnation.holding.values()):
            tree.damage = tree.damage or f"{incarnation} died"
            if is_noticed:
                self.trees.send_fail(tree)
        if incarnation.place.current is incarnation:
            self.at(self.rng.uniform(0.01, 0.5), lambda: self._take_place_of(incarnation))

    def _take_place_of(self, incarnation: Incarnation) -> None:
        if incarnation.place.current is incarnation:
            self.replace(incarnation.place).start()

    # Faults

    def mishap(self) -> None:
        """Something may go wrong here, in a user's component."""
        if self.faults.mishaps and self.is_faulty and self.rng.random() < self.faults.mishaps:
            incarnation = self.running[-1]
            fate = self.rng.choice(["fails", "fails", "is away", "dies"])
            self.tell(None, f"{incarnation}: its component {fate}")
            if fate == "fails":
                raise FailedException("a mishap")
            if fate == "is away":
                raise UnavailableError("something is away")
            incarnation.kill("in its component")
            raise Killed

    def crash_something(self) -> None:
        """A task, all tasks of a worker, or everything."""
        places = [self.coordinator, *self.places.values()]
        count = self.rng.choice([1, 1, 1, 1, 3, len(places)])
        is_killed = self.rng.random() < 0.5
        for place in self.rng.sample(places, min(count, len(places))):
            self._crash(place.current, is_killed)

    def _crash(self, incarnation: Incarnation, is_killed: bool) -> None:
        if not incarnation.alive or incarnation.cut_off:
            return
        if is_killed:
            incarnation.kill("killed")
        else:
            incarnation.cut_off = True
            self.tell(None, f"{incarnation} is cut off")
            self.at(self.rng.uniform(0, 0.5), lambda: self._take_place_of(incarnation))
            self.at(self.rng.uniform(0.5, 4.0), lambda: incarnation.kill("its time is over"))

    def lose_store(self) -> None:
        self.store_back_s = min(self.faults.end_s, self.now_s + self.rng.uniform(0.1, 1.0))
        self.tell(None, f"the store is away until {self.store_back_s:.4f}")

    def move_partition(self) -> None:
        partition = self.rng.randrange(self.shape.partitions)
        self.source.away ^= {partition}

    def end_faults(self) -> None:
        self.source.away.clear()
        self.tell(None, "faults end")
