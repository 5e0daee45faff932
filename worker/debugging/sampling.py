"""Sampling of emitted tuples, for operators (``tupletree debug``).

While a stream is sampled, its target choosers are wrapped by choosers that record some of the tuples. A stream that is
not sampled keeps its own choosers, at no cost. The number of tuples to skip is drawn at random after each sample, so
that tuples of a periodic pattern are all sampled equally.
"""

from __future__ import annotations

import math
import random
import reprlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree._wire.events import MAX_VALUE_LENGTH, MAX_VALUES
from tupletree.hooks import SampledTuple
from tupletree.outputs import RESERVED_PREFIXES

from ..core.output_streams import OutStream, Port
from ..core.routing import Many, One, Watched
from ..core.spout_task import SpoutTask
from ..core.task import Task
from .event_log import EventLog
from .sampled_messages import SampledMessages, Tell
from .settings import Switches

MAX_PER_SECOND: Final = 500  # per worker
_MAX_PASSED_OVER: Final = 2**60


class _Short(reprlib.Repr):
    """Repr that truncates bytes before formatting them; ``reprlib`` formats all bytes and truncates the text."""

    def repr_bytes(self, value: bytes, level: int) -> str:
        return repr(value[: self.maxother])

    def repr_bytearray(self, value: bytearray, level: int) -> str:
        return repr(value[: self.maxother])


_short = _Short()
_short.maxlevel = 4
_short.maxstring = _short.maxother = _short.maxlong = MAX_VALUE_LENGTH
_short.maxlist = _short.maxtuple = _short.maxdict = _short.maxset = _short.maxfrozenset = _short.maxdeque = 10


def shown(value: Any) -> str:
    """Return a value as text of bounded length. Never raises, even if the value's own ``__repr__`` does."""
    if type(value) is str and len(value) < MAX_VALUE_LENGTH - 1:  # the usual case; reprlib takes ten times as long
        text = repr(value)
        if len(text) <= MAX_VALUE_LENGTH:
            return text
    try:
        text = _short.repr(value)
    except Exception as error:  # __repr__ is user code
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"


class RateLimit:
    """Limit of ``MAX_PER_SECOND`` samples per worker; counts dropped samples. Any thread; the limit is approximate."""

    def __init__(self, events: EventLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._events = events
        self._clock = clock
        self._second = 0
        self._count = 0

    def allows(self) -> bool:
        """True if another sample is within the limit; counts the sample."""
        second = int(self._clock())
        if second != self._second:
            if self._count > MAX_PER_SECOND:
                self._events.left_out(self._count - MAX_PER_SECOND)
            self._second, self._count = second, 0
        self._count += 1
        return self._count <= MAX_PER_SECOND


class Lens:
    """Sampler of one stream of one task: records tuples and draws how many to skip next. On the task's thread."""

    def __init__(
        self,
        stream: OutStream,
        share: float,
        rate_limit: RateLimit,
        events: EventLog,
        rng: random.Random,
        tell: Tell | None = None,
    ) -> None:
        self._origin = stream.origin
        self._per_log = 1 / math.log1p(-share) if share < 1 else -0.0
        self._rate_limit = rate_limit
        self._events = events
        self._rng = rng
        self._tell = tell
        self._is_open = True
        self._passed_over = self.draw()  # for tuples not counted by a ``Watched`` single-target chooser

    def close(self) -> None:
        """Record nothing any more. Any thread."""
        self._is_open = False

    def draw(self) -> int:
        """Draw the number of tuples to skip, so that each tuple is sampled with the same probability, independently."""
        if not self._is_open:
            return _MAX_PASSED_OVER
        drawn = math.log(1.0 - self._rng.random()) * self._per_log
        return int(drawn) if drawn < _MAX_PASSED_OVER else _MAX_PASSED_OVER

    def record_one(self, values: Sequence[Any], port: Port) -> int:
        """Record a tuple for one task; return the number of tuples to skip."""
        if self._is_open and self._rate_limit.allows():
            self._write(values, [port.task])
        return self.draw()

    def record(self, values: Sequence[Any], ports: Sequence[Port]) -> None:
        """Record or skip a tuple for any number of tasks."""
        if self._passed_over:
            self._passed_over -= 1
        else:
            if self._is_open and self._rate_limit.allows():
                self._write(values, [port.task for port in ports])
            self._passed_over = self.draw()

    def _write(self, values: Sequence[Any], targets: list[int]) -> None:
        origin = self._origin
        now_unix_s = time.time()
        self._events.put(
            {
                "at": now_unix_s,
                "kind": "tuple",
                "component": origin.component,
                "task": origin.task,
                "stream": origin.stream,
                "targets": targets,
                "values": [shown(value) for value in values[:MAX_VALUES]],
            }
        )
        if self._tell is not None:
            self._tell(
                SampledTuple(now_unix_s, origin.component, origin.task, origin.stream, tuple(targets), tuple(values))
            )


@dataclass(frozen=True, slots=True)
class _Choosers:
    """The choosers and the observer of a stream."""

    one: One | None
    many: Many
    observe: Callable[[Sequence[Any]], None] | None

    @classmethod
    def of(cls, stream: OutStream) -> _Choosers:
        return cls(stream.choose_one, stream.choose_many, stream.observe)


@dataclass(frozen=True, slots=True)
class _Inserted:
    """A lens in a stream: what was there before, and what is there with the lens."""

    lens: Lens
    before: _Choosers
    sampled: _Choosers


class Sampler:
    """The lenses of one worker's streams. ``apply`` on the event loop's thread."""

    def __init__(self, tasks: Iterable[Task], events: EventLog, tell: Tell | None = None) -> None:
        """``tell``: called with each sampled tuple, on the thread of its task. None: nobody wants to know."""
        self._tasks = list(tasks)
        self._tell = tell
        self._events = events
        self._rate_limit = RateLimit(events)
        self._inserted: dict[tuple[int, str], _Inserted] = {}
        self._shares: dict[str, float] = {}
        self._detach: dict[int, Callable[[], None]] = {}  # by task: the end of ``SampledMessages.attach``

    def apply(self, switches: Switches) -> None:
        """Sample each component's share of tuples from now on. Task threads keep running meanwhile."""
        for task in self._tasks:
            share = switches.share_of(task.component_id)
            if share == self._shares.get(task.component_id, 0.0):
                continue
            if detach := self._detach.pop(task.task_id, None):
                detach()
            tell = self._tell_of(task) if share else None
            for name, stream in task.streams.items():
                if not name.startswith(RESERVED_PREFIXES):
                    self._restore(task.task_id, stream)
                    if share:
                        self._insert(task.task_id, stream, share, tell)
        self._shares = {task.component_id: switches.share_of(task.component_id) for task in self._tasks}

    def _tell_of(self, task: Task) -> Tell | None:
        """Return what the lenses of a task call with each sampled tuple: in a spout, its message is found first."""
        if self._tell is None or not isinstance(task, SpoutTask):
            return self._tell
        messages = SampledMessages(task, self._tell)
        self._detach[task.task_id] = messages.attach()
        return messages.hold

    def _restore(self, task_id: int, stream: OutStream) -> None:
        inserted = self._inserted.pop((task_id, stream.origin.stream), None)
        if inserted is None:
            return
        inserted.lens.close()  # a hook may have wrapped the choosers since, and keeps them
        before, sampled = inserted.before, inserted.sampled
        if stream.choose_one is sampled.one:
            stream.choose_one = before.one
        if stream.choose_many is sampled.many:
            stream.choose_many = before.many
        if stream.observe is sampled.observe:
            stream.observe = before.observe

    def _insert(self, task_id: int, stream: OutStream, share: float, tell: Tell | None) -> None:
        before = _Choosers.of(stream)
        lens = Lens(stream, share, self._rate_limit, self._events, random.Random(), tell)

        def choose_many(values: Sequence[Any]) -> Sequence[Any]:
            ports = before.many(values)
            lens.record(values, ports)
            return ports

        def observe(values: Sequence[Any]) -> None:
            if before.observe is not None:
                before.observe(values)
            lens.record(values, ())

        if before.one is not None:
            stream.choose_one = Watched(before.one, lens.record_one, lens.draw())
        stream.choose_many, stream.observe = choose_many, observe
        self._inserted[task_id, stream.origin.stream] = _Inserted(lens, before, _Choosers.of(stream))
