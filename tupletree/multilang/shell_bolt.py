"""ShellBolt: a bolt that is a program in any language."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

from tupletree.component import Bolt, BoltCollector, TopologyContext
from tupletree.errors import ReportedFailedException, UnregisteredTypeError
from tupletree.multilang.child import ChildError
from tupletree.multilang.messages import Ack, Emit, Error, Fail, Message, Metric
from tupletree.multilang.shell_component import ShellComponent
from tupletree.multilang.silence import Silence
from tupletree.tuples import Tuple

HEARTBEAT_S = 1.0
MAX_RECEIVED = 10_000
"""The most messages of a child that wait for the task; then it has to wait itself."""


class ShellBolt(ShellComponent, Bolt):
    """A bolt whose tuples are processed by a child process, by Storm's multilang protocol.

        builder.set_bolt("split", ShellBolt(["node", "split.js"], ["word"]), 4).shuffle_grouping("lines")

    Each task has a process of its own, started with the worker. Values must be what JSON has: a tuple with others is
    failed and reported. A program emits, acks and fails as the protocol says; a tuple that it does neither with fails
    after ``topology.message.timeout.secs``, which begins when the program can read it. While more than
    ``topology.shellbolt.max.pending`` tuples are not written yet, the task accepts no further one. If the process
    ends, sends what is no message or is silent for ``topology.subprocess.timeout.secs``, the worker ends and is
    started again. Ticks arrive as tuples of stream ``__tick``, component ``__system`` and task -1.

    ``command``: the program and its arguments; ``PYTHON`` stands for the worker's Python. It runs in the first
    directory ``resources`` on ``sys.path`` that has one of these files, or beside the modules: add it to a submission
    with ``--include``. ``outputs``: fields, or fields by stream; ``direct``: those of streams of which the program
    names the receiving task. ``environment``: variables to add to those of the worker.

    Raises UsageError for a command that is no list of texts.
    """

    holds_tuples = True
    can_be_full = True
    _is_over: threading.Event = None  # type: ignore[assignment]

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.context = context
        self.collector = collector
        self._most = int(conf["topology.shellbolt.max.pending"])
        self._tuples: dict[str, Tuple] = {}  # with the child, by the id that it knows
        self._unsent: dict[str, Tuple] = {}  # those of them that are not written yet; the writer's thread takes them
        self._next_id = 0
        self._received: queue.Queue[Message] = queue.Queue(MAX_RECEIVED)
        self._fault: ChildError | None = None  # of the child, which sends nothing after it
        self._has_woken = False
        self._keep_alive_s = conf["topology.message.timeout.secs"] / 3
        self._kept_alive_s = time.monotonic()
        self._is_over = threading.Event()
        context.is_full = lambda: len(self._unsent) >= self._most
        context.outstanding = lambda: len(self._tuples)
        self.start(conf, context, self._on_message, self._on_written)
        threading.Thread(target=self._beat, name=f"{self._child.title}: heartbeats", daemon=True).start()

    def cleanup(self) -> None:
        if self._is_over is not None:
            self._is_over.set()
        if self._child is not None:
            self._child.close()

    def execute(self, tup: Tuple) -> None:
        self._next_id += 1
        id = str(self._next_id)
        component, stream, task = tup.source_component, tup.source_stream, tup.source_task
        if tup.is_tick:
            component, stream, task = "__system", "__tick", -1
        message = {"id": id, "comp": component, "stream": stream, "task": task, "tuple": list(tup.values)}
        self._tuples[id] = self._unsent[id] = tup
        try:
            self._child.send(message, id)
        except UnregisteredTypeError as error:
            del self._tuples[id], self._unsent[id]
            self.collector.fail(tup, ReportedFailedException(str(error)))
            self.collector.report_error(error)

    def _on_written(self, tag: str | None) -> None:
        """Runs on the writer's thread."""
        if tag is not None:
            was_full = len(self._unsent) >= self._most
            self._unsent.pop(tag, None)
            if was_full and len(self._unsent) < self._most:
                self._wake()

    def _on_message(self, message: Message | ChildError) -> None:
        """Runs on the child's threads, and waits while the task is behind. A fault, also one that the task finds on its
        own thread, waits for nobody."""
        if isinstance(message, ChildError):
            self._fault = message
        else:
            self._received.put(message)
        self._wake()

    def _wake(self) -> None:
        if not self._has_woken:
            self._has_woken = True
            self.context.call_first(self._collect)

    def _beat(self) -> None:
        """Send heartbeats, which the child answers. Runs on a thread of its own."""
        silence = Silence(time.monotonic())
        while not self._is_over.wait(HEARTBEAT_S):
            silent_s = silence.look(self._child.heard_s, time.monotonic())
            if silent_s > self._timeout_s:
                self._child.fail(
                    f"its process has sent nothing for {silent_s:.0f} s, more than topology.subprocess.timeout.secs: "
                    f"it must answer heartbeats with sync"
                )
                return
            self._child.send({"id": "-1", "comp": "__system", "stream": "__heartbeat", "task": -1, "tuple": []})
            self._wake()

    def _collect(self) -> None:
        """Carry out what the child has sent, and raise its fault at the end."""
        self._has_woken = False
        for _ in range(self._received.qsize()):
            self._carry_out(self._received.get_nowait())
        if self._fault is not None and self._received.empty():
            raise self._fault
        now_s = time.monotonic()
        if now_s - self._kept_alive_s >= self._keep_alive_s:
            self._kept_alive_s = now_s
            for tup in list(self._unsent.values()):  # their time with the child has not begun
                self.collector.reset_timeout(tup)

    def _carry_out(self, message: Message) -> None:
        match message:
            case Emit():
                self._emit(message)
            case Ack(id) if (tup := self._tuples.pop(id, None)) is not None:
                self.collector.ack(tup)
            case Fail(id) if (tup := self._tuples.pop(id, None)) is not None:
                self.collector.fail(tup)
            case Error(text):
                self.collector.report_error(ChildError(text))
            case Metric(name, value):
                self._metrics.note(name, value)
            case _:
                pass  # a sync, or the end of a tuple that has ended already

    def _emit(self, message: Emit) -> None:
        anchors = [self._tuples[id] for id in message.anchors if id in self._tuples]
        if len(anchors) < len(message.anchors):
            self._child.fail("it anchors to a tuple that it has acked or failed, or never got")
            return
        if message.task is not None:
            self.collector.emit_direct(message.task, message.values, anchors, message.stream)
            return
        tasks = self.collector.emit(message.values, anchors, message.stream)
        if message.wants_tasks:
            self._child.send(list(tasks))
