"""ShellSpout: a spout that is a program in any language."""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping
from typing import Any

from tupletree.component import Spout, SpoutCollector, TopologyContext
from tupletree.multilang.child import ChildError
from tupletree.multilang.messages import Emit, Error, Message, Metric, Sync
from tupletree.multilang.shell_component import ShellComponent
from tupletree.multilang.silence import Silence


class ShellSpout(ShellComponent, Spout):
    """A spout whose tuples come from a child process, by Storm's multilang protocol.

        builder.set_spout("lines", ShellSpout(["node", "lines.js"], ["line"]))

    The program answers each ``next``, ``ack``, ``fail``, ``activate`` and ``deactivate`` with any number of emits and a
    ``sync``. A tuple with an ``id`` is tracked, and its ack or fail comes back with that id; the program emits it again
    if it is to be replayed. If the process ends, sends what is no message or is silent for
    ``topology.subprocess.timeout.secs``, the worker ends and is started again.

    The arguments are those of ShellBolt.

    Raises UsageError for a command that is no list of texts.
    """

    blocking = True

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.context = context
        self.collector = collector
        self._received: queue.Queue[Message | ChildError] = queue.Queue()
        self.start(conf, context, self._received.put)
        self.activate()

    def close(self) -> None:
        if self._child is not None:
            self._child.close()

    def activate(self) -> None:
        self._tell({"command": "activate"})

    def deactivate(self) -> None:
        self._tell({"command": "deactivate"})

    def next_tuple(self) -> None:
        self._tell({"command": "next"})

    def ack(self, msg_id: Any) -> None:
        self._tell({"command": "ack", "id": msg_id})

    def fail(self, msg_id: Any) -> None:
        self._tell({"command": "fail", "id": msg_id})

    def _tell(self, command: Mapping[str, Any]) -> None:
        """Send a command, and carry out what the child sends until its sync."""
        self._child.send(command)
        silence = Silence(time.monotonic())
        while True:
            try:
                message = self._received.get(timeout=0.5)
            except queue.Empty:
                silent_s = silence.look(self._child.heard_s, time.monotonic())
                if silent_s > self._timeout_s:
                    self._child.fail(
                        f"its process has sent nothing for {silent_s:.0f} s since {command['command']!r}, more than "
                        f"topology.subprocess.timeout.secs: it must end each answer with sync"
                    )
                continue
            match message:
                case Sync():
                    return
                case Emit():
                    self._emit(message)
                case Error(text):
                    self.collector.report_error(ChildError(text))
                case Metric(name, value):
                    self._metrics.note(name, value)
                case ChildError():
                    raise message
                case _:
                    self._child.fail(f"a spout cannot send {type(message).__name__.lower()}")

    def _emit(self, message: Emit) -> None:
        if message.task is not None:
            self.collector.emit_direct(message.task, message.values, message.id, message.stream)
            return
        tasks = self.collector.emit(message.values, message.id, message.stream)
        if message.wants_tasks:
            self._child.send(list(tasks))
