"""Base class of ShellSpout and ShellBolt: their arguments, their process, and the metrics that it reports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tupletree.component import Component, TopologyContext
from tupletree.multilang.child import Child, ChildError
from tupletree.multilang.handshake import context_message, outputs_of, streams_of
from tupletree.multilang.messages import Message
from tupletree.multilang.metrics import ChildMetrics
from tupletree.multilang.settings import PYTHON, check_command, check_environment, timeout_s


class ShellComponent(Component):
    """Base class of spouts and bolts that are programs. See ShellBolt for the arguments.

    Raises UsageError for a command that is no list of texts.
    """

    _child: Child = None  # type: ignore[assignment]

    def __init__(
        self,
        command: Sequence[str],
        outputs: Sequence[str] | Mapping[str, Sequence[str]] = (),
        environment: Mapping[str, str] | None = None,
        *,
        direct: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.command = check_command(type(self).__name__, command)
        self.environment = check_environment(type(self).__name__, environment)
        self.streams = streams_of(outputs, direct)
        self.outputs = outputs_of(outputs, direct)  # type: ignore[misc]  # set per instance

    def start(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        received: Callable[[Message | ChildError], None],
        written: Callable[[str | None], None] = lambda tag: None,
    ) -> None:
        """Start the process, and tell it of its topology. ``received``, ``written``: as for Child."""
        self._timeout_s = timeout_s(conf)
        self._metrics = ChildMetrics(context)
        title = f"task {context.task_id} of {context.component_id}"
        command = [sys.executable if part == PYTHON else part for part in self.command]
        self._child = Child(title, command, self.environment, received, written)
        self._child.greet(conf, context_message(context, self.streams))
