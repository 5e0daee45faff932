"""Components written with pystorm, without their process: what they would write to Storm is carried out at once.

A pystorm component reads tuples and commands from a pipe, and writes messages to another (``send_message``). Here a
subclass of the user's class gets tuples from its task, and hands each message to a function. All that the user's class
inherits stays as it is: ``emit``, automatic anchors and acks, batches, replays.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import threading
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tupletree.component import TopologyContext
from tupletree.errors import TupletreeError, UsageError

Message = Mapping[str, Any]
"""What a component writes: ``command``, and what belongs to it."""

_LEVELS: Final = (logging.DEBUG, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
"""The levels of Python's logging, by the numbers that the protocol has for levels."""
TICKLESS: Final = "pystorm.bolt.TicklessBatchingBolt"
UNKNOWN_ANCHOR: Final = "it anchors to a tuple that it has acked or failed, or never got"
_NO_IDENTIFIER: Final = re.compile(r"\W|^(?=\d)")


class PystormError(TupletreeError):
    """A component written with pystorm has reported an error, or has done what it may not."""


def checked(owner: str, cls: Any, base: str) -> type:
    """Return the class of a component. Raises UsageError if it is not derived from pystorm's class ``base``."""
    names = {f"{one.__module__}.{one.__qualname__}" for one in getattr(cls, "__mro__", ())}
    if f"pystorm.{base.lower()}.{base}" not in names:
        raise UsageError(f"{owner}: {cls!r} is no class derived from {base} of pystorm or streamparse")
    found: type = cls
    return found


def outputs_of(cls: Any) -> dict[str, tuple[list[str], bool]]:
    """Return the fields of each output stream of a class, and whether the stream is direct.

    ``outputs`` of streamparse: names of fields, and Stream objects.
    """
    found: dict[str, tuple[list[str], bool]] = {}
    for one in getattr(cls, "outputs", None) or ():
        if isinstance(one, str):
            found.setdefault("default", ([], False))[0].append(one)
        else:
            found[one.name] = (list(one.fields), bool(one.direct))
    return found


def tickless_of(cls: type) -> type | None:
    """Return pystorm's TicklessBatchingBolt, if a class is derived from it."""
    return next((one for one in cls.__mro__ if f"{one.__module__}.{one.__name__}" == TICKLESS), None)


class Messages:
    """The messages of a component, carried out on its task's thread. ``carry_out`` returns the tasks of an emit."""

    def __init__(self, context: TopologyContext, carry_out: Callable[[Message], list[int]]) -> None:
        self._context = context
        self._carry_out = carry_out
        self.thread = threading.get_ident()
        self.task_ids: list[int] = []

    def send(self, message: Message) -> None:
        """Carry a message out now or, on a thread of the component's own, soon."""
        if threading.get_ident() == self.thread:
            self.task_ids = self._carry_out(message)
        elif message.get("need_task_ids", True) and message["command"] == "emit":
            raise PystormError("need_task_ids is for the thread that calls process: another cannot wait for the tasks")
        else:
            self._context.call_soon(lambda: self._later(message))

    def _later(self, message: Message) -> None:
        self.thread = threading.get_ident()
        self.task_ids = self._carry_out(message)


def hosted(
    cls: Any, mixins: Sequence[type], conf: Mapping[str, Any], context_message: Mapping[str, Any], messages: Messages
) -> Any:
    """Return a component of a subclass of ``cls``, before its ``initialize``. Its attributes are those of pystorm.

    ``mixins``: classes that come before ``cls``.
    """
    mixin = _HostedTickless if tickless_of(cls) else _Hosted
    made = type(cls.__name__, (*mixins, mixin, cls), {"__module__": cls.__module__})
    component = made(input_stream=io.StringIO(), output_stream=io.StringIO(), rdb_signal=None)
    component._tupletree_messages = messages
    component._setup_component(dict(conf), dict(context_message))
    return component


def log_message(logger: logging.Logger, message: Message) -> None:
    """Log what a component has sent to be logged."""
    level = message.get("level")
    known = isinstance(level, int) and 0 <= level < len(_LEVELS)
    logger.log(_LEVELS[level] if known else logging.INFO, "%s", message.get("msg"))  # type: ignore[index]


class _Hosted:
    """Replacement of what belongs to a process. Comes before the user's class."""

    _tupletree_messages: Messages
    _tupletree_next: Any = None

    def _setup_component(self, storm_conf: dict[str, Any], context: dict[str, Any]) -> None:
        """Set pystorm's attributes. Its log handlers and the replaced standard output belong to a process."""
        self.storm_conf, self.context = storm_conf, context
        self.topology_name = storm_conf.get("topology.name", "")
        self.task_id, self.component_name = context["taskid"], context["componentid"]
        self.debug = storm_conf.get("topology.debug", False)
        self.logger = logging.getLogger(f"pystorm.component.{self.component_name}")

    def send_message(self, message: Message) -> None:
        self._tupletree_messages.send(message)

    def read_task_ids(self) -> list[int]:
        return self._tupletree_messages.task_ids

    def read_tuple(self) -> Any:
        return self._tupletree_next

    def _exit(self, status_code: int) -> None:
        sys.exit(status_code)


class _HostedTickless(_Hosted):
    """Without the thread that processes the batches, and the signal by which it tells of an exception."""

    def __init__(self, **arguments: Any) -> None:
        super(tickless_of(type(self)), self).__init__(**arguments)  # type: ignore[arg-type]
        self.exc_info = None
        self._batch_lock = threading.RLock()


def tuple_type(component: str, stream: str, fields: tuple[str, ...]) -> type:
    """Return the type of the values of a stream's tuples: a named tuple, if the names can be attributes."""
    name = "".join(_NO_IDENTIFIER.sub("_", part.title()) for part in (component, stream)) + "Tuple"
    try:
        return namedtuple(name, fields)
    except ValueError:
        return tuple
