"""KeyedProcess: a bolt with a value per key, and with timers. See docs/guides/keyed.md and docs/adr/0037.

The rules are in ``watermark``, ``timer_queue`` and ``progress``; this module calls the user's methods.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tupletree._log import event
from tupletree._signatures import check_returned
from tupletree.component import BasicStatefulBolt, Yielded
from tupletree.errors import FailedException, UsageError
from tupletree.keyed.access import KeyState, Timers
from tupletree.keyed.progress import (
    PLAIN,
    PROGRESS,
    VALUE,
    Progress,
    Sender,
    entry_of,
    is_tuple_key,
    key_of,
    merge_progress,
)
from tupletree.keyed.settings import (
    MAX_EVENT_TIME_MS,
    KeyedSettings,
    event_time_ms,
    invalid_key,
    key_fields,
    late_report,
    unit_doubt,
)
from tupletree.keyed.watermark import ABSENT, ALIVE, ANEW, BEFORE_ALL
from tupletree.outputs import CHECKPOINT_STREAM
from tupletree.state.contract import KeyValueState
from tupletree.tuples import Tuple
from tupletree.windows.bolt import LATE_FIELD

log = logging.getLogger(__name__)


class KeyedProcess(BasicStatefulBolt):
    """A bolt with a value per key, and with timers per key in event time and in processing time.

        class Sessions(KeyedProcess):
            key, event_time = "user", "at"              # group by the key; event times are milliseconds
            max_lag = timedelta(seconds=10)             # how far a tuple may be behind the newest of its sending task
            outputs = ["user", "clicks"]
            default_factory = int                       # of the value of a new key

            def on_tuple(self, tup, state, timers):
                state.value += 1
                if state.value == 1:
                    timers.set(tup["at"] + 60_000)

            def on_timer(self, key, time, state, timers):
                yield [key, state.value]
                state.clear()

        builder.set_bolt("sessions", Sessions(), 4).fields_grouping("clicks", ["user"])

    **Values** and timers are in the state of the topology (``topology.state.provider``). With aligned checkpoints and
    positioned spouts, a tuple and a timer take effect on them exactly once; otherwise at least once, as in any stateful
    bolt. After a crash or a rollback, timers of the last checkpoint are set again, and the watermark is where it was.

    **Timers** of a task fire in the order of their times: in event time when the watermark reaches the time, before the
    tuple that raised the watermark is processed; in processing time at the first ``timer_interval`` afterwards. A timer
    that is set twice fires once. A timer that came due while the topology was down fires when it is back.

    **The watermark** is the smallest of (newest event time - ``max_lag``) over all sending tasks, and never goes back;
    with ``idle_timeout``, silent senders do not hold it back. Tuples of an earlier time are *late*: emitted on
    ``late_stream`` as a dict in the one field ``late_tuple``, anchored; or dropped and reported as an error of the
    component, at the first and whenever their number has doubled. They are counted in either case, and acked. Not
    guaranteed: without aligned checkpoints, a tuple that is replayed may be late, though it was not at first.

    **Rows** are yielded or emitted with ``self.collector``. Those of ``on_tuple`` are anchored to the tuple, which is
    then acked; those of ``on_timer`` to the tuple that raised the watermark, or to none if the clock fired the timer.
    Not guaranteed: without aligned checkpoints, a row of ``on_timer`` that is lost on its way is not emitted again once
    a checkpoint has been committed.

    FailedException from ``on_tuple`` fails the tuple, also a tuple without a valid key or event time; what ``on_tuple``
    has changed stays. Any exception from ``on_timer`` ends the worker.

    A subclass that overrides ``init_state`` or ``pre_prepare`` must call the base method too.

    Attributes:
        key: the key field, or several. Group the input by these fields, or by some of them. Values of a key are str,
            bytes or int; a key of one field may also be a tuple of these.
        event_time: the field with the event time: milliseconds of Unix time, or a datetime with a time zone. None:
            there is no event time. A task reports an error once if its first time looks like seconds or microseconds.
        max_lag: how far a tuple's event time may be behind the newest of the same sending task. Required with
            ``event_time``; zero if the times of every sending task ascend.
        idle_timeout: after this time without a tuple, a sending task does not hold the watermark back. Choose it well
            above the pauses of recoveries and of back-pressure. None: every sending task must send.
        ttl: the value of a key is removed when it was not assigned for this long, in processing time. None: never.
        late_stream: the stream of late tuples; do not declare it. None: late tuples are dropped.
        timer_interval: the interval of looking at the clock: the tick interval of the component.
        default_factory: makes the value of a key that has none. None: such a value is None.
    """

    key: str | Sequence[str] = ()
    event_time: str | None = None
    max_lag: dt.timedelta | None = None
    idle_timeout: dt.timedelta | None = None
    ttl: dt.timedelta | None = None
    late_stream: str | None = None
    timer_interval: dt.timedelta = dt.timedelta(milliseconds=100)

    is_divisible = True
    _follows_tuples: bool = True  # tuples raise the watermark; otherwise only ``advance`` does
    _idle_timeouts_ms: Mapping[str, int | None] = MappingProxyType({})  # of senders that have others than idle_timeout
    _late_parts: Sequence[str] | None = None  # late tuples are emitted as these fields of theirs; None: as one dict
    _late_remedy: str = "raise max_lag, or name a late_stream"
    _progress: Progress | None = None
    _now: int = 0
    _late: int = 0
    _late_logged: int = 0
    _newest_late_s: float = 0.0
    _has_seen_time: bool = False  # a tuple with an event time in whole milliseconds came
    _report_late_at: int = 1

    def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> Yielded:
        """Process one tuple, with the value and the timers of its key. Rows may be emitted or yielded."""
        raise NotImplementedError

    def on_timer(self, key: Any, time: int, state: KeyState[Any], timers: Timers) -> Yielded:
        """Act on a timer of a key that was set for ``time``. Rows may be emitted or yielded."""
        raise UsageError(self._no_on_timer)

    # The framework's side

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields of the key. A grouping that sends one key to several tasks is refused at build time."""
        return key_fields(self.key)

    @property
    def required_fields(self) -> tuple[str, ...]:
        """The fields that every input of this bolt must have; checked when the topology is built."""
        return self.key_fields if self.event_time is None else (*self.key_fields, self.event_time)

    def declare_output_fields(self, declarer: Any) -> None:
        settings = KeyedSettings.of(declarer.component_id, self)
        super().declare_output_fields(declarer)
        if settings.late_stream is not None:
            declarer.declare_stream(settings.late_stream, self._late_parts or [LATE_FIELD])

    def component_configuration(self) -> Mapping[str, Any]:
        settings = KeyedSettings.of(type(self).__name__, self)
        return {"topology.tick.tuple.freq.secs": settings.timer_interval_s}

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        super().init_state(state)
        settings = KeyedSettings.of(self.context.component_id, self)
        progress = Progress(settings, self._senders(), self._now_ms(), self._idle_timeouts_ms)
        progress.restore(state)
        self._progress = progress
        self._settings = settings
        self._field = settings.key[0] if len(settings.key) == 1 else None
        self._access = KeyState[Any](
            state, self.default_factory, progress if settings.ttl_ms is not None else None, self._now_ms
        )
        is_missing = getattr(self.on_timer, "__func__", None) is KeyedProcess.on_timer
        no_timers = self._no_on_timer if is_missing else ""
        self._timers = Timers(progress, settings.event_time is not None, no_timers, self._now_ms)
        self._register_metrics()

    def values_of_key(self, key: Any, fields: Sequence[str]) -> Sequence[Any] | None:
        owner = key_of(key)
        if owner is None:
            return None
        names = self.key_fields
        values = (owner,) if len(names) == 1 else owner
        return [values[names.index(field)] for field in fields]

    def merge_values(self, key: Any, values: Sequence[Any]) -> Any:
        return merge_progress(values) if key == PROGRESS else values[0]  # the layout of windows is the class's

    def migrate_entry(self, key: Any, value: Any, version: int) -> Any:
        is_value = type(key) is not tuple or (len(key) == 2 and key[0] == VALUE)
        return self.migrate_value(key_of(key), value, version) if is_value else value

    def pre_prepare(self, txid: int) -> None:
        if self._progress is not None:
            self._progress.save(self.state)

    def execute(self, tup: Tuple) -> None:
        progress = self._progress
        if progress is None:
            raise UsageError(f"{type(self).__name__}.init_state must call super().init_state(state)")
        field = self._field
        key = tup[field] if field is not None else tuple(tup.select(self._settings.key))
        entry = key if type(key) in PLAIN else self._checked_entry(tup, key)
        time_field = self._settings.event_time
        if time_field is None:
            self._on_tuple(tup, key, entry)
            return
        at = tup[time_field]
        if type(at) is not int or not -MAX_EVENT_TIME_MS <= at <= MAX_EVENT_TIME_MS:
            at = event_time_ms(self.context.component_id, time_field, tup)
        elif not self._has_seen_time:
            self._has_seen_time = True
            if (doubt := unit_doubt(at)) is not None:
                self.collector.report_error(doubt)
        watermark, events = progress.watermark, progress.events
        if self._follows_tuples:
            watermark.came(tup.source_task, at)  # never above the tuple's own time, unless the tuple is late
        if events.due_at <= watermark.value:
            self._fire_events(progress)
        if at < watermark.value and not self._takes_late(tup):
            self._on_late(tup, at, watermark.value)
            return
        self._timers.event_time = at
        self._on_tuple(tup, key, entry)
        if events.due_at <= watermark.value:  # a timer whose time has passed already
            self._fire_events(progress)

    def advance(self, sender: int, time: int) -> None:
        """Take notice that a sending task has come to an event time, as if it had sent a tuple of that time.

        Does nothing if the sender has sent a tuple of this time or a later one. Event timers that are due fire. A
        sender whose time is ABSENT holds nothing back until it sends another time. ALIVE: it is not silent. ANEW: what
        it has sent does not hold any longer.
        """
        progress = self._progress
        assert progress is not None
        watermark = progress.watermark
        if time == ABSENT:
            watermark.leave(sender)
            self._fire_events(progress)
            return
        if time == ALIVE:
            watermark.alive(sender)
            return
        if time == ANEW:
            watermark.begin_anew(sender)
            return
        watermark.back(sender)
        if time > watermark.newest.get(sender, BEFORE_ALL):
            watermark.came(sender, time)
            self._fire_events(progress)

    def _on_tuple(self, tup: Tuple, key: Any, entry: Any) -> None:
        access, timers = self._access, self._timers
        access.entry = entry
        access.key = timers.key = key
        returned = self.on_tuple(tup, access, timers)
        if returned is not None:
            self._emit("on_tuple", returned)

    def tick(self) -> None:
        """Look at the clock: find idle senders, fire timers, and remove expired values."""
        progress = self._progress
        if progress is None:
            return
        now_ms = self._now_ms()
        progress.watermark.tick(now_ms)
        self._fire_events(progress)
        self._fire_processing(progress, now_ms)
        while (key := progress.pop_expired(now_ms)) is not None:
            self.state.delete(entry_of(key))
        self._log_late()

    def _fire_events(self, progress: Progress) -> None:
        watermark, events = progress.watermark, progress.events
        while (due := events.pop(watermark.value)) is not None:
            self._on_timer(*due)

    def _fire_processing(self, progress: Progress, now_ms: int) -> None:
        self._timers.is_processing = True
        while (due := progress.processing.pop(now_ms)) is not None:
            self._on_timer(*due)
        self._timers.is_processing = False

    def _on_timer(self, key: Hashable, time_ms: int) -> None:
        access, timers = self._access, self._timers
        access.entry = entry_of(key)
        access.key = timers.key = key
        timers.event_time = None
        try:
            returned = self.on_timer(key, time_ms, access, timers)
            if returned is not None:
                self._emit("on_timer", returned)
        except FailedException as error:
            raise UsageError(
                f"component {self.context.component_id!r}: on_timer raised {type(error).__name__} for key {key!r}, and "
                f"a timer has no tuple that could fail: {error}"
            ) from error

    def _emit(self, method: str, returned: object) -> None:
        check_returned(self.context.component_id, self, method, returned, emit_many=self.collector.emit_many)

    def _takes_late(self, tup: Tuple) -> bool:
        """True if ``on_tuple`` is called for a tuple although it is late."""
        return False

    def _on_late(self, tup: Tuple, at_ms: int, watermark_ms: int) -> None:
        self._late += 1
        if self._settings.late_stream is not None:
            self.collector.emit(self._late_row(tup), stream=self._settings.late_stream)
            return
        self._newest_late_s = self.context.unix_clock()
        if self.context.status is None:
            self.context.register_status(self._late_status)
        if self._late >= self._report_late_at:
            self._report_late_at = 2 * self._late
            self.collector.report_error(late_report(self._late, at_ms, watermark_ms, self._late_remedy))

    def _late_row(self, tup: Tuple) -> Sequence[Any]:
        """Return the row of ``late_stream`` for a late tuple."""
        if self._late_parts is not None:
            return tup.select(self._late_parts)
        return [dict(zip(tup.fields, tup.values, strict=True))]

    def _late_status(self) -> dict[str, Any]:
        """Return the number of tuples that this task has dropped as late, and the time since the newest."""
        age_s = max(0.0, self.context.unix_clock() - self._newest_late_s)
        return {"kind": "late", "dropped": self._late, "newest_age_s": round(age_s, 1)}

    def _log_late(self) -> None:
        if self._late > self._late_logged and self._settings.late_stream is None:
            tuples, self._late_logged = self._late - self._late_logged, self._late
            context = self.context
            event(log, "tuples.late", component=context.component_id, task=context.task_id, tuples=tuples)

    def _checked_entry(self, tup: Tuple, key: Any) -> Any:
        """Return the entry of a key that is not plain. Raises ReportedFailedException if a part of it is invalid."""
        if is_tuple_key(key):
            return entry_of(key)
        parts = key if self._field is None else (key,)
        for name, part in zip(self._settings.key, parts, strict=True):
            if type(part) not in PLAIN:
                raise invalid_key(self.context.component_id, name, tup, part)
        return entry_of(key)

    @property
    def _no_on_timer(self) -> str:
        return f"a timer needs {type(self).__name__}.on_timer(key, time, state, timers), and the class has none"

    def _senders(self) -> dict[int, Sender]:
        """Return the tasks that can send tuples, by their ids."""
        context = self.context
        components = {component for component, stream in context.sources if stream != CHECKPOINT_STREAM}
        return {
            task: (component, index)
            for component in sorted(components)
            for index, task in enumerate(context.component_tasks(component))
        }

    def _now_ms(self) -> int:
        self._now = max(self._now, int(self.context.unix_clock() * 1000))
        return self._now

    def _register_metrics(self) -> None:
        register = self.context.register_own
        register("keyed_timers", "gauge", "Timers of a KeyedProcess that are set.", self._count_timers)
        if self._settings.event_time is None:
            return
        register(
            "keyed_late_tuples",
            "counter",
            "Tuples of a KeyedProcess that came after the watermark.",
            lambda: self._late,
        )
        text = "The watermark of a KeyedProcess: no earlier event time is expected. Missing while there is none."
        register("keyed_watermark_timestamp_seconds", "gauge", text, self._watermark_s)

    def _count_timers(self) -> float:
        progress = self._progress
        return 0 if progress is None else len(progress.events) + len(progress.processing)

    def _watermark_s(self) -> float:
        watermark_ms = self._timers.watermark
        if watermark_ms is None:
            raise LookupError("there is no watermark")
        return watermark_ms / 1000
