"""The history of one simulated run: each message of a spout, how it ended, and the story of those that went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from tupletree._replay import Pending
from tupletree.component import Spout
from tupletree.replaying_spout import ReplayingSpout
from tupletree.testing.simulation.timeline import Timeline
from tupletree.tuples import SYSTEM_COMPONENT, Origin
from tupletree.worker.core.basic_bolt_task import BasicBoltTask
from tupletree.worker.core.batches import EncodedBatch, Rows
from tupletree.worker.core.bolt_task import BoltTask
from tupletree.worker.core.spout_task import SpoutTask
from tupletree.worker.core.task import Task
from tupletree.worker.core.trace_filter import Followed, FollowedBolt, FollowedSpout

ALL: Final = Followed(1)
MAX_LINES: Final = 60
"""The maximum number of lines of a story; the middle is left out."""


@dataclass(eq=False, slots=True)
class Message:
    """A message of a spout, through all lives of its task.

    ``id``: its row if the spout replays it, or else its message id. ``emissions``: how often it was emitted.
    ``is_done``: it was acked, or given up; always true for a spout that hears of no acks. ``failures``: how often its
    spout's ``fail`` was called. ``values``: those of the tuples of its trees.
    """

    spout: str
    id: str
    emissions: int = 0
    is_done: bool = False
    failures: int = 0
    values: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return f"message {self.id} of spout {self.spout!r}"


class History:
    """The messages of one run, and the lines told of them."""

    def __init__(self, timeline: Timeline) -> None:
        self.messages: dict[tuple[str, str], Message] = {}
        self.emissions = 0
        self.last_emitted_s = 0.0
        self._timeline = timeline
        self._trees: dict[int, Message] = {}
        self._deaf: set[str] = set()  # spouts that hear of no acks
        self._pending: dict[Pending, Message] = {}
        self._lines: list[tuple[float, Message | None, str]] = []

    # Messages

    def watch(self, task: SpoutTask, storyteller: Storyteller, *, hears_acks: bool) -> None:
        """Observe the messages of a spout task, before it is opened."""
        spout: Any = task.spout
        task.collector._task = cast(SpoutTask, FollowedSpout(task, ALL, storyteller))
        name = task.component_id
        if not hears_acks:
            self._deaf.add(name)
            return
        if isinstance(spout, ReplayingSpout):
            finish = spout._finish

            def finish_observed(pending: Pending) -> None:
                self._ended(self._pending.get(pending))
                finish(pending)

            _set(spout, "_finish", finish_observed)
            return
        ack, fail = spout.ack, spout.fail

        def ack_observed(msg_id: Any) -> Any:
            self._ended(self.messages.get((name, repr(msg_id))))
            return ack(msg_id)

        def fail_observed(msg_id: Any) -> Any:
            message = self.messages.get((name, repr(msg_id)))
            if message is not None:
                message.failures += 1
            return fail(msg_id)

        _set(spout, "ack", ack_observed)
        if type(spout).fail is not Spout.fail:
            _set(spout, "fail", fail_observed)

    def began(self, task: SpoutTask, root: int, msg_id: Any) -> None:
        """Record that a spout emitted a message as a tree, or without one (root 0)."""
        self.last_emitted_s = self._timeline.now_s
        message = self._message(task.component_id, msg_id)
        message.emissions += 1
        self.emissions += 1
        if self._timeline.is_telling and root:
            again = "" if message.emissions == 1 else f", for the {_ordinal(message.emissions)} time"
            self._trees[root] = message
            self.tell([root], f"emitted by task {task.task_id}{again}, as tree {root:016x}")

    def _message(self, spout: str, msg_id: Any) -> Message:
        if not isinstance(msg_id, Pending):
            return self._named(spout, repr(msg_id))
        known = self._pending.get(msg_id)  # a retry, or the dead letter that the message has become
        if known is None:
            name = repr(list(msg_id.row)) if msg_id.row is not None else repr(msg_id.id)
            known = self._pending[msg_id] = self._named(spout, name)
        return known

    def _named(self, spout: str, name: str) -> Message:
        return self.messages.setdefault((spout, name), Message(spout, name, is_done=spout in self._deaf))

    @staticmethod
    def _ended(message: Message | None) -> None:
        if message is not None:
            message.is_done = True

    @property
    def repeats(self) -> int:
        """The number of repeated emissions."""
        return sum(message.emissions - 1 for message in self.messages.values())

    def lost(self) -> Message | None:
        """Return a message that was neither acked nor given up, if there is any."""
        return next((message for message in self.messages.values() if not message.is_done), None)

    # The story

    def tell(self, roots: Iterable[int], line: str) -> None:
        """Add a line to the stories of the messages of these trees; without a root, to every story."""
        messages = dict.fromkeys(self._trees[root] for root in roots if root in self._trees)
        self._lines += [(self._timeline.now_s, message, line) for message in messages]

    def tell_all(self, line: str) -> None:
        """Add a line to the story of every message."""
        self._lines.append((self._timeline.now_s, None, line))

    def saw(self, root: int, values: Sequence[Any]) -> None:
        """Record that a tuple of a tree had these values."""
        message = self._trees.get(root)
        if message is not None:
            message.values.update(map(repr, values))

    def suspects(self, keys: Iterable[Any]) -> list[Message]:
        """Return the message to tell of: one with one of these values in a tuple, emitted again, but not often."""
        wanted = set(map(repr, keys))
        found = [message for message in self.messages.values() if not wanted or message.values & wanted]
        return sorted(found, key=lambda message: (message.emissions < 2, message.emissions))[:1]

    def story(self, messages: Sequence[Message]) -> str:
        """Return the stories of some messages, between what happened to workers and links."""
        if not messages:
            return ""
        own = [at_s for at_s, message, _ in self._lines if message in messages]
        until_s = max(own, default=0.0)
        lines = [
            f"  {at_s:8.4f} s  {line}"
            for at_s, message, line in self._lines
            if (message is None and at_s <= until_s) or message in messages
        ]
        if len(lines) > MAX_LINES:
            left = len(lines) - MAX_LINES
            lines[MAX_LINES // 2 : -MAX_LINES // 2] = [f"  … {left} lines left out …"]
        return "\n".join([f"the story of {', '.join(map(str, messages))}:", *lines])


class Storyteller:
    """Tells what the tasks of one worker do with tuples, in the place of a tracer (worker/execution/tracer.py)."""

    def __init__(self, history: History, worker: Any) -> None:
        self._history = history
        self._worker = worker

    def follow(self, task: Task) -> None:
        """Tell of the acks and fails of a bolt that acks by hand."""
        if isinstance(task, BoltTask):
            task.collector._task = cast(BoltTask, FollowedBolt(task, ALL, self))

    def began(self, task: Task, root: int, message: Any) -> None:
        """Record that a task began a tree."""
        if isinstance(task, SpoutTask):
            self._history.began(task, root, message)

    def sent(self, origin: Origin, target: int, rows: Rows) -> None:
        """Say nothing: the receiver is told of."""

    def received(self, message: EncodedBatch) -> None:
        """Say nothing: the execution is told of."""

    def run(self, task: BasicBoltTask | BoltTask, rows: Rows, start: int, stop: int, origin: Origin) -> int:
        """Run rows as the task's ``run`` does, and tell of each."""
        if origin.component == SYSTEM_COMPONENT:
            return task.run(rows, start, stop, origin)
        if task.takes_batches:
            self._tell_rows(task, rows, start, stop)
            return task.run(rows, start, stop, origin)
        at = start
        while at < stop:
            self._tell_rows(task, rows, at, at + 1)
            done = task.run(rows, at, at + 1, origin)
            if not done:
                break
            at += done
        return at - start

    def _tell_rows(self, task: BasicBoltTask | BoltTask, rows: Rows, start: int, stop: int) -> None:
        for at in range(start, stop):
            values = [column[at] for column in rows.columns]
            roots = [root for root, _ in rows.pairs[at]] if at in rows.pairs else [rows.roots[at]]
            for root in roots:
                self._history.saw(root, values)
            self._history.tell(
                roots, f"{self._worker}: {task.component_id} (task {task.task_id}) executes {values!r:.200}"
            )

    def on_outcome(self, task: Task, anchors: Iterable[tuple[int, int]], kind: str) -> None:
        """Tell that a bolt acked or failed a tuple."""
        roots = [root for root, _ in anchors]
        self._history.tell(roots, f"{self._worker}: {task.component_id} (task {task.task_id}) calls {kind}")

    def judged(self, spout: SpoutTask, verdict: str, roots: Sequence[int]) -> None:
        """Tell that a spout hears how trees ended."""
        for root in roots:
            if spout.pending.get(root) is not None:
                self._history.tell([root], f"{self._worker}: spout {spout.component_id} hears: {verdict}")


def _set(component: Any, name: str, value: Any) -> None:
    """Set an attribute of a user's component, even of a frozen dataclass."""
    object.__setattr__(component, name, value)


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number if number < 20 else number % 10, "th")
    return f"{number}{ending}"
