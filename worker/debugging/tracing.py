"""Tree tracing: a record of every hop of one in N tuple trees (``tupletree trace``).

The root id alone decides whether a tree is traced (``root mod one_in == 0``). So all workers agree without
communicating, and tuples carry no extra data. While tracing is off, executors check once per batch that there is no
tracer, and components emit as usual. While tracing is on, all roots of a batch are checked at once, and only rows of
traced trees are run one at a time, so that each has its own start and end.

To see a spout's emits and a bolt's acks, a proxy stands between the collector and its task (trace_filter.py).

The children of a tuple are the rows appended to the buffers during its execution. If a bolt keeps tuples and emits for
them later, the tuple's event shows no children; the reader of the events then picks the nearest in time.

Times are Unix seconds: this machine's clock is read once, and a monotonic counter is added.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tupletree._wire.events import id_name
from tupletree._wire.packed import unpack_u32, unpack_u64
from tupletree.tuples import Origin

from ..core.basic_bolt_task import BasicBoltTask
from ..core.batches import EncodedBatch, Rows
from ..core.bolt_task import BoltTask
from ..core.spout_task import SpoutTask
from ..core.task import Task
from ..core.trace_filter import Followed, FollowedBolt, FollowedSpout
from ..hooks.stand_ins import exchange
from .event_log import EventLog
from .sampling import shown

MAX_CHILDREN: Final = 200  # children named per tuple


class Tracer:
    """Tracer of one worker's trees. Each method is called on the thread that does the traced work."""

    def __init__(self, one_in: int, events: EventLog) -> None:
        self.followed = Followed(one_in)
        self._events = events
        self._ahead_s = time.time() - time.perf_counter()

    def began(self, task: Task, root: int, message: Any) -> None:
        """Record that a task began a traced tree. A message without a tree (root 0) has no trace."""
        if root:
            self._put("begin", root, component=task.component_id, task=task.task_id, message=shown(message))

    def sent(self, origin: Origin, target: int, rows: Rows) -> None:
        """Record the traced rows of a batch that is sent to its target, or to several."""
        due = self._due(rows, 0, len(rows))
        at = self._now() if due else 0.0
        for row in due:
            for root, edge in _trees(rows, row):
                if self.followed.holds(root):
                    self._put(
                        "send",
                        root,
                        at,
                        edge=id_name(edge),
                        component=origin.component,
                        task=origin.task if rows.sources is None else rows.sources[row],
                        stream=origin.stream,
                        target=target if rows.targets is None else rows.targets[row],
                    )

    def received(self, message: EncodedBatch) -> None:
        """Record the traced rows of a batch from another worker, already checked: its arrays fit each other."""
        at = self._now()
        targets = unpack_u32(message.targets) if message.targets else [message.target_task] * message.rows
        if message.roots:
            roots = unpack_u64(message.roots)
            due = self.followed.rows(roots, 0, len(roots))
            edges = unpack_u64(message.edges) if due else roots
            for row in due:
                self._put("receive", roots[row], at, edge=id_name(edges[row]), target=targets[row])
        for multi in message.multi:
            for root, edge in zip(unpack_u64(multi.roots), unpack_u64(multi.edges), strict=True):
                if self.followed.holds(root):
                    self._put("receive", root, at, edge=id_name(edge), target=targets[multi.row])

    def run(self, task: BasicBoltTask | BoltTask, rows: Rows, start: int, stop: int, origin: Origin) -> int:
        """Run rows as the task's ``run`` does, but the rows of traced trees one at a time."""
        due = self._due(rows, start, stop)
        if not due:
            return task.run(rows, start, stop, origin)
        if task.takes_batches:
            return self._run(task, rows, start, stop, origin, due)
        at = start
        for row in due:
            if at < row:
                at += task.run(rows, at, row, origin)
            if at < row or (done := self._run(task, rows, row, row + 1, origin, [row])) == 0:
                return at - start  # the task must yield
            at += done
        return at - start + (task.run(rows, at, stop, origin) if at < stop else 0)

    def on_outcome(self, task: Task, anchors: Iterable[tuple[int, int]], kind: str) -> None:
        """Record that a bolt acked or failed a tuple of these trees."""
        for root, _ in anchors:
            if self.followed.holds(root):
                self._put(kind, root, component=task.component_id, task=task.task_id)

    def judged(self, spout: SpoutTask, verdict: str, roots: Sequence[int]) -> None:
        """Record verdicts that a spout is about to receive. Trees no longer pending are skipped: they were recorded."""
        for root in self.followed.among(roots):
            if spout.pending.get(root) is not None:
                self._put("verdict", root, component=spout.component_id, task=spout.task_id, verdict=verdict)

    def _run(
        self, task: BasicBoltTask | BoltTask, rows: Rows, start: int, stop: int, origin: Origin, due: Sequence[int]
    ) -> int:
        buffers = [(buffer, buffer.sent) for buffer in task.buffers()]
        failed, error = task.counters.failed, ""
        at, done = self._now(), 0
        try:
            done = task.run(rows, start, stop, origin)
        except (Exception, SystemExit) as raised:
            error = type(raised.__cause__ or raised).__name__
            raise
        finally:
            until = self._now()
            emitted = [one for buffer, sent in buffers for one in buffer.ids_since(sent)]
            outcome = "fail" if task.counters.failed > failed else "ack"
            for row in due if done or error else ():
                for root, edge in _trees(rows, row):
                    if self.followed.holds(root):
                        children = [id_name(child) for tree, child in emitted if tree == root][:MAX_CHILDREN]
                        facts: dict[str, Any] = {"children": children, **({"error": error} if error else {})}
                        self._put(
                            "execute",
                            root,
                            at,
                            edge=id_name(edge),
                            component=task.component_id,
                            task=task.task_id,
                            source=origin.component,
                            until=until,
                            **facts,
                        )
                        if isinstance(task, BasicBoltTask) and not error:
                            self._put(outcome, root, until, component=task.component_id, task=task.task_id)
        return done

    def _due(self, rows: Rows, start: int, stop: int) -> list[int]:
        """Return the rows in a part of a batch that belong to a traced tree, ascending."""
        due = self.followed.rows(rows.roots, start, stop)
        if rows.pairs:
            several = [row for row, pairs in rows.pairs.items() if any(self.followed.holds(root) for root, _ in pairs)]
            due = sorted({*due, *(row for row in several if start <= row < stop)})
        return due

    def _now(self) -> float:
        return self._ahead_s + time.perf_counter()

    def _put(self, kind: str, root: int, at: float | None = None, /, **facts: Any) -> None:
        self._events.put({"at": self._now() if at is None else at, "kind": kind, "root": id_name(root), **facts})


def _trees(rows: Rows, row: int) -> Sequence[tuple[int, int]]:
    return rows.pairs[row] if row in rows.pairs else ((rows.roots[row], rows.edges[row]),)


def follow_collector(task: Task, tracer: Tracer | None) -> None:
    """Attach a tracer to a task's collector, or detach with None."""
    if isinstance(task, SpoutTask):
        exchange(task, task if tracer is None else FollowedSpout(task, tracer.followed, tracer))
    elif isinstance(task, BoltTask):
        exchange(task, task if tracer is None else FollowedBolt(task, tracer.followed, tracer))
