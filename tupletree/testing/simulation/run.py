"""One simulated run of a user's topology, from a seed."""

from __future__ import annotations

import math
import random
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tupletree import config
from tupletree._checkpoints.record import load_checkpoint
from tupletree._checkpoints.settings import check_settings, state_id
from tupletree._checkpoints.steps import CHECKPOINT_SPOUT
from tupletree._stored_states import is_positioned
from tupletree._stores import memory_nodes
from tupletree._wire.codec import decode_value
from tupletree.batching_bolt import BatchingBolt
from tupletree.combiner import CombinerBolt
from tupletree.errors import NotFoundError, TaskFailedError
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.replaying_spout import ReplayingSpout
from tupletree.state.buffered import BufferedState
from tupletree.state.contract import KeyValueState, StateProvider
from tupletree.state.memory import MemoryBackend, Namespace
from tupletree.testing.complete import Completed
from tupletree.testing.simulation.deployment import SimulatedTopology
from tupletree.testing.simulation.history import History, Message, Storyteller
from tupletree.testing.simulation.outcome import Outcome
from tupletree.testing.simulation.timeline import NEVER, Faults
from tupletree.testing.simulation.workers import Worker, raised
from tupletree.topology import Topology
from tupletree.v1 import topology_pb2
from tupletree.windows import WindowedBolt
from tupletree.worker.checkpoint.stateful_participant import StatefulParticipant
from tupletree.worker.core.spout_task import SpoutTask
from tupletree.worker.core.task import Task

KINDS: Final = ("kill", "drop", "delay", "reorder")
OWN: Final[Mapping[str, Any]] = {
    "topology.message.timeout.secs": 2,
    "topology.state.checkpoint.interval.ms": 300,
    "topology.sleep.spout.wait.strategy.time.ms": 100,  # simulated, but each poll costs real time
}
"""Defaults of simulated runs. The faults of a run last a few seconds: so that each has checkpoints and timeouts."""
PATIENCE_S: Final = 120.0
"""Simulated seconds after the end of the faults in which all messages must be processed."""
UNBOUNDED_S: Final = 5.0
"""A spout whose source does not end is at its end when it has emitted nothing for so many simulated seconds."""
RESTS_S: Final = 1.0
"""Any other spout is at its end when it has emitted nothing for so many simulated seconds."""
MAX_EMITTED: Final = 20_000
"""Spouts that emit more often than this after the faults have no end."""
MAX_RAISED: Final = 20
"""A component may raise the same exception so often in one run: after that it will not recover."""


class WrongRunError(AssertionError):
    """A run in which something is lost, or does not end. ``messages``: those to tell of. ``story``: of them."""

    def __init__(self, what: str, messages: Sequence[Message] = ()) -> None:
        super().__init__(what)
        self.messages = messages
        self.story = ""


def draw_faults(rng: random.Random, kinds: Sequence[str], timeout_s: float) -> Faults:
    """Draw the faults of a run, of these kinds."""
    is_killing, is_dropping = "kill" in kinds, "drop" in kinds
    slowest_s = rng.choice([0.03, 0.15, 0.5, 1.5 * timeout_s]) if "delay" in kinds else 0.003
    return Faults(
        end_s=rng.uniform(1, 4),
        slowest_s=slowest_s,
        fastest_s=0.0005 if "reorder" in kinds else slowest_s,
        loss=rng.choice([0.0, 0.003, 0.02, 0.1]) if is_dropping else 0.0,
        torn=rng.choice([0.0, 0.003, 0.01]) if is_killing else 0.0,
        crash_every_s=rng.choice([NEVER, 2.0, 0.7, 0.2]) if is_killing else NEVER,
        break_every_s=rng.choice([NEVER, 1.0, 0.3, 0.1]) if is_dropping else NEVER,
        acker_every_s=rng.choice([NEVER, NEVER, 1.0]) if is_killing else NEVER,
    )


def settings(rng: random.Random, topology: Topology, own: Mapping[str, Any], root: str) -> dict[str, Any]:
    """Return the configuration of a run.

    The size of batches, the limit of pending trees and the number of workers are drawn, unless the user has set them:
    they change which events coincide.
    """
    conf = {
        **config.defaults(),
        **OWN,
        "topology.transfer.batch.size": rng.choice([1, 3, 100]),
        "topology.max.spout.pending": rng.choice([None, 1, 3, 10]),
        "topology.workers": rng.choice([1, 2, 3]),
        **own,
        "zookeeper.servers": [],
        "transactional.zookeeper.servers": None,
        "transactional.zookeeper.root": root,
    }
    if conf["topology.acker.executors"] != 0:
        conf["topology.acker.executors"] = 1
    if CHECKPOINT_SPOUT in topology.components:
        check_settings(conf)
    return conf


class Durable(StateProvider):
    """The provider of simulated states that outlive workers, in the place of each provider that does so."""

    is_durable = True

    def new_state(self, namespace: str, conf: Mapping[str, Any], context: Any) -> KeyValueState[Any, Any]:
        raise NotImplementedError


class Run(SimulatedTopology):
    """One run of a topology, with faults drawn from a seed.

    The faults stop after a few simulated seconds. After that, every message must be processed and every spout must come
    to its end, within ``PATIENCE_S``; otherwise the run is wrong.
    """

    def __init__(
        self,
        seed: int,
        topology: Topology,
        spec: topology_pb2.TopologySpec,
        own: Mapping[str, Any],
        kinds: Sequence[str],
        *,
        is_telling: bool = False,
    ) -> None:
        rng = random.Random(seed)
        self.seed = seed
        self.root = f"/simulated-{uuid.UUID(int=rng.getrandbits(128)).hex}"
        memory_nodes.register(self.root)
        conf = settings(rng, topology, own, self.root)
        faults = draw_faults(rng, kinds, conf["topology.message.timeout.secs"])
        super().__init__(rng, faults, "simulated-1-1", spec, conf, conf["topology.workers"], is_telling=is_telling)
        self.history = History(self)
        self.failures: Counter[str] = Counter()
        self.emitted = Completed(
            name for name, definition in topology.components.items() if definition.outputs.keys() - {CHECKPOINT_STREAM}
        )
        self.observer = self.emitted.add
        self._namespaces: dict[str, Namespace] = {}
        self._has_states = CHECKPOINT_SPOUT in topology.components
        self._settle_s = self._settling(topology)
        self._started_s = 0.0  # when a worker was started last
        self._found: WrongRunError | None = None

    def _settling(self, topology: Topology) -> float:
        """Return for how many seconds nothing must happen at the end: all ticks that matter are then over."""
        tick = "topology.tick.tuple.freq.secs"
        parts = topology.components.values()
        longest_s = max([0, *(one.conf.get(tick) or self.conf.get(tick) or 0 for one in parts)])
        holding = sum(isinstance(one.component, BatchingBolt | CombinerBolt | WindowedBolt) for one in parts)
        ticks_s: float = longest_s * max(1, holding)
        return 0.5 + ticks_s

    # What is around tasks and workers

    def make_worker(self, slot: Any, number: int) -> Worker:
        self._started_s = self.now_s
        worker = super().make_worker(slot, number)
        if self.is_telling:
            storyteller = Storyteller(self.history, worker)
            for executor in worker.executors:
                executor.tracer = storyteller
                for task in executor.tasks:
                    storyteller.follow(task)
        return worker

    def dress(self, worker: Any, task: Task) -> None:
        """Keep the states of durable providers beyond the worker, and observe the messages of spouts."""
        state = getattr(task.participant, "_state", None)
        if state is not None and self.conf["topology.state.provider"] not in (None, "memory"):
            state._open_state = lambda: self._open_state(task)
        if isinstance(task, SpoutTask) and task.component_id != CHECKPOINT_SPOUT:
            goes_back = task.participant is not None and is_positioned(task.spout)  # to a checkpoint, and hears no acks
            self.history.watch(task, Storyteller(self.history, worker), hears_acks=not goes_back)

    def _open_state(self, task: Task) -> tuple[StateProvider, KeyValueState[Any, Any]]:
        name = self.names[task.task_id]
        backend = MemoryBackend(name, self._namespaces.setdefault(name, Namespace()))
        return Durable(), BufferedState(name, backend, cache_entries=1000)

    def tell(self, *told: object) -> None:
        if self.is_telling:
            self.history.tell_all(str(told[-1]))

    def failed(self, worker: Worker, failure: TaskFailedError) -> None:
        """Record that a component raised. It is fatal if it happens again and again."""
        super().failed(worker, failure)
        why = raised(failure)
        self.failures[why] += 1
        if self.failures[why] == MAX_RAISED:
            error = WrongRunError(f"{why}, {MAX_RAISED} times: each time its worker died")
            error.__cause__ = failure.__cause__
            self._found = error

    # The run

    def run(self) -> Outcome:
        """Go through the run.

        Raises:
            WrongRunError: a message is lost, not every message is processed in time, or a component raises forever.
        """
        self.start()
        patient_s = self.faults.end_s + PATIENCE_S + self._settle_s
        quiet_s, emitted, saved = 0.0, 0, 0.0
        while self.is_faulty or self.now_s < quiet_s + self._settle_s or self._last_saved() < saved + 2:
            self._run_for(0.1)
            if self.is_faulty or not self._is_idle():
                quiet_s, saved = self.now_s, self._last_saved()
            if self.is_faulty:
                emitted = self.history.emissions
            if self.now_s > patient_s or self.history.emissions > emitted + MAX_EMITTED:
                raise self._endless()
        lost = self.history.lost()
        if lost is not None:
            raise WrongRunError(_lost(lost), [lost])
        return Outcome(
            seed=self.seed,
            states=self._states(),
            emitted=self.emitted,
            messages=len(self.history.messages),
            repeats=self.history.repeats,
            kills=self.crashes,
        )

    def close(self) -> None:
        """Free the store of this run."""
        memory_nodes.drop(self.root)

    def _run_for(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self._events and self._events[0][0] <= end_s:
            self.next()
            if self._found is not None:
                raise self._found
        self.now_s = end_s

    def _last_saved(self) -> float:
        """Return the number of the last checkpoint that was begun; infinity in a topology without states."""
        if not self._has_states:
            return math.inf
        try:
            checkpoint, _, _ = load_checkpoint(
                memory_nodes.registered(self.root), state_id(self.conf, self.topology_id)
            )
        except NotFoundError:
            return 0
        return checkpoint.txid

    def _is_idle(self) -> bool:
        """True if every slot has its worker, and no spout has anything pending, waiting or to be read."""
        for slot in self.slots:
            worker = slot.current
            if worker is None or not worker.alive or worker.cut_off:
                return False
            for task in worker.tasks.values():
                if isinstance(task, SpoutTask) and task.component_id != CHECKPOINT_SPOUT and self._is_busy(task):
                    return False
        return True

    def _is_busy(self, task: SpoutTask) -> bool:
        if not task.is_open or len(task.pending) or task.uncommitted:
            return True
        spout: Any = task.spout
        rests_since_s = max(self.history.last_emitted_s, self._started_s)
        if isinstance(spout, ReplayingSpout):
            if len(spout._replay):
                return True
            if not getattr(spout, "at_end", True):
                return self.now_s < rests_since_s + UNBOUNDED_S
        return self.now_s <= rests_since_s + RESTS_S

    def _endless(self) -> WrongRunError:
        message = self.history.lost()
        after_s = self.now_s - self.faults.end_s
        seconds = f"{after_s:.0f} simulated seconds after the end of the faults"
        if message is None or after_s < PATIENCE_S:
            return WrongRunError(f"the spouts still emit {seconds}: simulate needs sources that come to an end")
        last = next(iter(self.failures), "")
        because = f"; {last}" if last else ""
        return WrongRunError(
            f"{message} is neither acked nor given up {seconds}: it was emitted {message.emissions} times{because}",
            [message],
        )

    def _states(self) -> dict[str, dict[Any, Any]]:
        found: dict[str, dict[Any, Any]] = {}
        for slot in self.slots:
            for task in slot.current.tasks.values() if slot.current is not None else ():
                if isinstance(task.participant, StatefulParticipant):
                    found.setdefault(task.component_id, {}).update(self._state_of(task, task.participant))
        return found

    def _state_of(self, task: Task, participant: StatefulParticipant) -> Mapping[Any, Any]:
        namespace = self._namespaces.get(self.names[task.task_id])
        if namespace is None:
            return participant.state
        return {decode_value(key): decode_value(value) for key, value in namespace.entries.items()}


def _lost(message: Message) -> str:
    times = "once" if message.emissions == 1 else f"{message.emissions} times"
    if message.failures:
        return (
            f"{message} is lost: it was emitted {times} and failed, and its spout did not emit it again: keep messages "
            f"until ack, and emit them again after fail, or derive from ReliableSpout"
        )
    return (
        f"{message} is lost: it was emitted {times}, its spout died and did not emit it again: read the source from "
        f"its last acknowledged message on, or derive from ReliableSpout"
    )
