"""The arguments of ``on_tuple`` and ``on_timer``: the value of one key, and the timers of one key.

One object of either kind serves all calls of a task; it is bound to the key of the present call.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from tupletree.errors import UsageError
from tupletree.keyed.progress import Progress
from tupletree.keyed.settings import MAX_TIME_MS
from tupletree.keyed.watermark import BEFORE_ALL
from tupletree.state.contract import KeyValueState

V = TypeVar("V")


class KeyState(Generic[V]):
    """The state of one key: a value of any type that a tuple may carry. Valid during the call that it was passed to.

    Assign the value after a change: a list that is changed in place is not saved.

    Attributes:
        key: the key: the value of the key field, or a tuple of the values of several key fields.
    """

    __slots__ = ("_default_factory", "_now_ms", "_store", "_written", "entry", "key")

    def __init__(
        self,
        store: KeyValueState[Any, Any],
        default_factory: Callable[[], Any] | None,
        progress: Progress | None,
        now_ms: Callable[[], int],
    ) -> None:
        """``progress``: is told of assignments, for a time to live; None without one."""
        self.key: Any = None
        self.entry: Any = None  # the key of the store under which the value is
        self._store = store
        self._default_factory = default_factory
        self._written = progress
        self._now_ms = now_ms

    @property
    def value(self) -> V:
        """The value. If the key has none: what ``default_factory`` makes, or None without a default factory.

        Reading a missing value does not set it. Reading can raise UnavailableError, if the store must be asked and
        cannot be reached.
        """
        value: V = self._store.get(self.entry, _MISSING)
        if value is _MISSING:
            return None if self._default_factory is None else self._default_factory()  # type: ignore[return-value]
        return value

    @value.setter
    def value(self, value: V) -> None:
        self._store.put(self.entry, value)
        if self._written is not None:
            self._written.written(self.key, self._now_ms())

    @property
    def exists(self) -> bool:
        """True if the key has a value."""
        return self._store.get(self.entry, _MISSING) is not _MISSING

    def clear(self) -> None:
        """Remove the value. The timers of the key stay."""
        self._store.delete(self.entry)
        if self._written is not None:
            self._written.cleared(self.key)


_MISSING: Any = object()


class Timers:
    """The timers of one key, and the time. Valid during the call that it was passed to.

    Times are milliseconds of Unix time.

    A timer is set or not: one that is set twice fires once. A timer whose time has come already fires soon after the
    present call: in event time before the next tuple, in processing time at the next ``timer_interval``.

    Attributes:
        event_time: in ``on_tuple``, the event time of the tuple; None without event time, and in ``on_timer``.
        is_processing: in ``on_timer``, True if the timer was set by ``set_processing``.
    """

    __slots__ = ("_has_event_time", "_no_timers", "_now_ms", "_progress", "event_time", "is_processing", "key")

    def __init__(self, progress: Progress, has_event_time: bool, no_timers: str, now_ms: Callable[[], int]) -> None:
        """``no_timers``: the reason why no timer can be set; "" if timers can be set."""
        self.key: Hashable = None
        self._no_timers = no_timers
        self.event_time: int | None = None
        self.is_processing = False
        self._progress = progress
        self._has_event_time = has_event_time
        self._now_ms = now_ms

    def set(self, time: int) -> None:
        """Have ``on_timer`` called when the watermark has reached ``time``.

        Raises:
            UsageError: the component has no ``event_time`` or no ``on_timer``, or ``time`` is not a whole number.
        """
        self._check_event_time()
        self._check_on_timer()
        self._progress.events.set(self.key, _checked(time))

    def delete(self, time: int) -> None:
        """Delete a timer in event time, if it is set.

        Raises:
            UsageError: the component has no ``event_time``, or ``time`` is not a whole number.
        """
        self._check_event_time()
        self._progress.events.delete(self.key, _checked(time))

    def set_processing(self, time: int) -> None:
        """Have ``on_timer`` called when the clock has reached ``time``.

        Raises:
            UsageError: the component has no ``on_timer``, or ``time`` is not a whole number.
        """
        self._check_on_timer()
        self._progress.processing.set(self.key, _checked(time))

    def delete_processing(self, time: int) -> None:
        """Delete a timer in processing time, if it is set. Raises UsageError if ``time`` is not a whole number."""
        self._progress.processing.delete(self.key, _checked(time))

    @property
    def now(self) -> int:
        """The processing time: Unix time by the clock of the machine, or simulated time. Never goes back in a task."""
        return self._now_ms()

    @property
    def watermark(self) -> int | None:
        """The watermark: no tuple of an earlier event time is expected. None while there is no watermark."""
        value = self._progress.watermark.value
        return None if value == BEFORE_ALL else value

    def _check_event_time(self) -> None:
        if not self._has_event_time:
            raise UsageError("a timer in event time needs event_time on the class: set it, or use set_processing")

    def _check_on_timer(self) -> None:
        if self._no_timers:
            raise UsageError(self._no_timers)


def _checked(time: int) -> int:
    if type(time) is not int or not -MAX_TIME_MS <= time <= MAX_TIME_MS:
        raise UsageError(f"the time of a timer must be a whole number of milliseconds, not {time!r}")
    return time
