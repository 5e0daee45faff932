"""A stateful topology in one heap of events: the real checkpoint spout, executors, participants, states and ledger.

Everything around them is simulated and decided by one seeded generator, so a seed is a whole history: links and the
way to the acker (checkpoint_network), workers that die or go on although they are replaced (checkpoint_workers),
requests to the store and to the states that fail half-way (transaction_stores, checkpoint_stores). What must hold is
in checkpoint_judge. docs/adr/0020-what-the-checkpoint-simulation-assumes.md says why the world may do what it does.

Faults end at ``faults.end_s``; from then on everything arrives, and within ``PATIENCE_S`` every message must be in the
committed states, and checkpoints must go on.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from checkpoint_components import Source, build
from checkpoint_judge import Judge, position
from checkpoint_network import Acker, Link
from checkpoint_nouns import ID, Faults, Killed, Rules, Shape, Violation
from checkpoint_workers import Worker
from transaction_stores import Outside

from tupletree import config
from tupletree._stores.memory_nodes import MemoryStore
from tupletree.errors import FailedException
from tupletree.parallelism import ExecutorTasks, executor_counts, executors_of, tasks_of
from tupletree.state.memory import Namespace
from tupletree.tuples import Origin
from tupletree.worker.control_messages import WorkerLost

PATIENCE_S = 60.0
TIMEOUT_S = 2
DEEPEST = 3  # pauses within pauses
OFTENER = 5  # times as many mishaps where a component is asked once a checkpoint or once a life


class Slot:
    """A place for a worker: which executors run there, and who runs them now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.executors: list[ExecutorTasks] = []
        self.current: Worker


class World:
    """One history. ``run`` raises Violation, with the story if the world ``is_telling``."""

    def __init__(self, seed: int, rules: Rules | None = None, *, is_telling: bool = False) -> None:
        self.rng = random.Random(seed)
        self.rules = rules or Rules()
        self.is_telling = is_telling
        self.shape = Shape.draw(self.rng)
        for name, value in self.rules.shape.items():
            setattr(self.shape, name, value)
        self.shape.positioned &= self.shape.aligned
        self.faults = Faults.draw(self.rng)
        for name, value in self.rules.faults.items():
            setattr(self.faults, name, value)
        self.now_s = 0.0
        self.steps = 0
        self.crashes = 0
        self.counts: Counter[str] = Counter()
        self.network = self  # where the requests to the outside are counted
        self.story: list[str] = []
        self.found: Violation | None = (
            None  # raised again at the end of the step: a task takes it for an error of its own
        )
        self.running: list[Worker] = []  # the innermost last: who pauses lets others run
        self.living: list[Worker] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0

        self.topology_id = f"{ID}-1-1"
        self.conf = self._conf()
        self.spec = build(self.shape)
        self.tasks = {name: list(ids) for name, ids in tasks_of(self.spec, self.conf).items()}
        self.origins: dict[tuple[int, str], Origin] | None = None
        self.names = {task: f"{name}/{index}" for name, ids in self.tasks.items() for index, task in enumerate(ids)}
        self.sources = {name: Source() for name in self.names.values() if name.split("/")[0] in self.shape.spouts}
        with_state = [*self.shape.stateful, *(self.shape.spouts if self.shape.positioned else ())]
        self.states = {name: Namespace() for name in self.names.values() if name.split("/")[0] in with_state}
        self.slots = self._draw_slots()
        self.slot_of = {
            task: slot for slot in self.slots for first, last in slot.executors for task in range(first, last + 1)
        }
        self.store = MemoryStore()
        self.store_back_s = 0.0
        self.outside: Any = Outside(self)  # type: ignore[arg-type]
        self.judge = Judge(self)
        self.acker = Acker(self)

    def _conf(self) -> dict[str, Any]:
        return {
            **config.defaults(),
            "topology.state.checkpoint.aligned": self.shape.aligned,
            "topology.state.checkpoint.interval.ms": self.shape.interval_ms,
            "topology.message.timeout.secs": TIMEOUT_S,
            "topology.transfer.batch.size": self.shape.batch_size,
            "topology.max.spout.pending": self.shape.max_pending,
            "topology.sleep.spout.wait.strategy.time.ms": 30,
            "topology.acker.executors": 1,
        }

    def _draw_slots(self) -> list[Slot]:
        slots = [Slot(number) for number in range(self.shape.workers)]
        for executor in executors_of(tasks_of(self.spec, self.conf), executor_counts(self.spec, self.conf)):
            self.rng.choice(slots).executors.append(executor)
        return [slot for slot in slots if slot.executors]

    # Time

    @property
    def is_faulty(self) -> bool:
        return self.now_s < self.faults.end_s

    def at(self, delay_s: float, action: Callable[[], Any]) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (self.now_s + delay_s, self._numbers, action))

    def every(self, period_s: float, action: Callable[[], None], *, always: bool = False) -> None:
        """While there are faults, or always."""

        def again() -> None:
            if always or self.is_faulty:
                action()
                self.at(self.rng.uniform(0.5, 1.5) * period_s, again)

        self.at(self.rng.uniform(0.1, 1.0) * period_s, again)

    def run(self) -> World:
        try:
            for slot in self.slots:
                self.replace(slot)
            faults = self.faults
            self.every(faults.crash_every_s, self.crash_something)
            self.every(faults.break_every_s, self.break_some_link)
            self.every(faults.outage_every_s, self.lose_store)
            self.every(faults.acker_every_s, self.acker.crash)
            self.every(TIMEOUT_S, self.acker.rotate, always=True)
            self.at(faults.end_s, lambda: self.tell("faults end"))
            self._run_while(
                lambda: self.is_faulty or not self.is_done(), "not every message is in the committed states"
            )
            txid = self.judge.txid
            self._run_while(lambda: self.judge.txid < txid + 3, "checkpoints do not go on")
            self.judge.check_counts({name: self.shape.length for name in self.sources}, is_exact=self.shape.positioned)
        except Violation:
            raise
        except Exception as error:
            raise self.violation(f"{type(error).__name__}: {error}") from error
        return self

    def _run_while(self, condition: Callable[[], bool], what: str) -> None:
        while condition():
            for _ in range(20):
                self._next()
            if self.now_s > max(self.faults.end_s, self.shape.arrival_s) + PATIENCE_S:
                raise self.violation(f"{what}: {self.positions() if self.shape.positioned else self.unacked()}")

    def _next(self) -> None:
        self.now_s, _, action = heapq.heappop(self._events)
        action()
        self.steps += 1
        if self.found is not None:
            raise self.found

    def pause(self, worker: Worker) -> None:
        """In the middle of a step of this worker the rest of the world goes on for a while."""
        if len(self.running) < DEEPEST:
            then_s = self.now_s + self.rng.choice([0.01, 0.1, 1.0])
            while self._events and self._events[0][0] <= then_s:
                self._next()
            self.now_s = then_s
            self.tell(f"{worker} goes on")
        if not worker.alive:
            raise Killed

    def delay_s(self, sender: Worker | None = None) -> float:
        if not self.is_faulty:
            return self.rng.uniform(0.0005, 0.003)
        slowest_s = 1.0 if sender is not None and sender.cut_off else self.faults.slowest_s
        return self.rng.uniform(0.0005, slowest_s)

    # What has been done

    def available(self) -> int:
        """How many messages each task of a spout has by now."""
        if self.now_s >= self.shape.arrival_s:
            return self.shape.length
        return int(self.shape.length * self.now_s / self.shape.arrival_s)

    def positions(self) -> dict[str, int]:
        return {name: position(self.states[name]) for name in self.sources}

    def unacked(self) -> dict[str, list[int]]:
        return {
            name: [number for number in range(self.shape.length) if number not in source.acked]
            for name, source in self.sources.items()
        }

    def is_done(self) -> bool:
        if self.shape.positioned:
            return self.judge.phase == "committed" and set(self.positions().values()) == {self.shape.length}
        return not any(self.unacked().values())

    # What is told

    def tell(self, *told: object) -> None:
        """What is told comes last; transaction_stores says before whom it concerns."""
        if self.is_telling:
            self.story.append(f"{self.now_s:.4f} {told[-1]}")

    def violation(self, what: str) -> Violation:
        error = Violation("\n".join([f"at {self.now_s:.4f} s, {self.shape}: {what}", *self.story]))
        self.found = self.found or error
        return error

    # Workers

    def replace(self, slot: Slot) -> None:
        """A new worker takes a slot over; the others learn of it one by one."""
        old = getattr(slot, "current", None)
        new = Worker(self, slot, 1 if old is None else old.number + 1)
        self.origins = new.origins
        slot.current = new
        self.tell(f"{new} starts, of {[self.names[task] for task in new.tasks]}")
        for other in self.living:
            if old is None:
                other.peers.learn(new)
            else:
                self.at(self.rng.uniform(0, 0.3), lambda other=other: other.peers.learn(new))  # type: ignore[misc]
        self.living.append(new)
        for other_slot in self.slots:
            if hasattr(other_slot, "current"):
                new.peers.learn(other_slot.current)
        self.at(self.rng.uniform(0, 0.05), new.start)

    def died(self, worker: Worker, why: str) -> None:
        self.crashes += 1
        self.tell(f"{worker} dies: {why}")
        self.living.remove(worker)
        for link in worker.peers.links.values():
            if self.rng.random() < 0.5:
                link.cut()
        for other in self.living:
            link = other.peers.links.get(worker.slot)
            if link is not None and link.receiver is worker:
                self.at(self.rng.uniform(0, 0.2), lambda link=link: self._break(link))  # type: ignore[misc]
            self.at(self.rng.uniform(0, 0.3), lambda other=other: other.tell(WorkerLost(0.5)))  # type: ignore[misc]
        if worker.slot.current is worker:
            self.at(self.rng.uniform(0.01, 0.5), lambda: self._take_place_of(worker))

    def _take_place_of(self, worker: Worker) -> None:
        if worker.slot.current is worker:
            self.replace(worker.slot)

    @staticmethod
    def _break(link: Link) -> None:
        if link.sender.alive and link.sender.peers.links.get(link.receiver.slot) is link:
            link.break_up()

    # Faults

    def mishap(self, *fates: str) -> None:
        """Something may go wrong in a user's component; rather where it may raise, for it is called there seldom."""
        odds = self.faults.mishaps * (OFTENER if "raises" in fates else 1)
        if odds and self.is_faulty and self.rng.random() < odds:
            worker, fate = self.running[-1], self.rng.choice(fates)
            self.counts[f"component {fate}"] += 1
            self.tell(f"{worker}: a component {fate}")
            if fate == "fails":
                raise FailedException("a mishap")
            if fate == "raises":
                raise RuntimeError("a mishap")
            worker.kill("in a component")
            raise Killed

    def crash_something(self) -> None:
        """A worker, several, or all: they die, or are cut off and replaced, and go on."""
        count = self.rng.choice([1, 1, 1, 2, len(self.slots)])
        is_killed = self.rng.random() < 0.6
        for slot in self.rng.sample(self.slots, min(count, len(self.slots))):
            worker = slot.current
            if not worker.alive or worker.cut_off:
                continue
            if is_killed:
                worker.kill("killed")
                continue
            worker.cut_off = True
            self.counts["cut off"] += 1
            self.tell(f"{worker} is cut off")
            self.at(self.rng.uniform(0, 0.5), lambda worker=worker: self._take_place_of(worker))  # type: ignore[misc]
            self.at(self.rng.uniform(0.3, 3.0), lambda worker=worker: worker.kill("its time is over"))  # type: ignore[misc]

    def break_some_link(self) -> None:
        links = [link for worker in self.living for link in worker.peers.links.values() if link.under_way]
        if links:
            self._break(self.rng.choice(links))

    def lose_store(self) -> None:
        self.store_back_s = min(self.faults.end_s, self.now_s + self.rng.uniform(0.1, 1.0))
        self.tell(f"the store is away until {self.store_back_s:.4f}")
