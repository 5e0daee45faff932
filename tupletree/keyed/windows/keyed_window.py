"""KeyedWindow: a KeyedProcess with windows per key. See docs/guides/keyed-windows.md.

The rules are in ``aligned``, ``sessions`` and ``counts``; this module calls the user's methods.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from tupletree.component import Yielded
from tupletree.errors import FailedException, UsageError
from tupletree.keyed.access import KeyState, Timers
from tupletree.keyed.process import KeyedProcess
from tupletree.keyed.progress import PROGRESS
from tupletree.keyed.settings import refuse
from tupletree.keyed.windows.kinds import Kind, WindowBounds
from tupletree.keyed.windows.record import EARLY, LATE, PENDING, Firing, Record, is_empty, new_record
from tupletree.keyed.windows.settings import WindowSettings
from tupletree.state.contract import KeyValueState
from tupletree.tuples import Tuple

LAYOUT = ("$windows",)
"""The key of the state under which a task has its layout of windows."""


class KeyedWindow(KeyedProcess):
    """A bolt with windows per key: each is aggregated tuple by tuple, and emitted when it is over.

        class Revenue(KeyedWindow):
            key, event_time = "shop", "at"
            max_lag = timedelta(seconds=10)
            window = Tumbling(timedelta(minutes=1))     # or Sliding, Session, CountWindow
            outputs = ["shop", "start", "sum"]

            def initial(self):
                return 0

            def add(self, value, tup):
                return value + tup["amount"]

            def on_window(self, key, window, value):
                yield [key, window.start, value]

        builder.set_bolt("revenue", Revenue(), 4).fields_grouping("sales", ["shop"])

    Keys, event times, watermarks, late streams and guarantees are those of KeyedProcess. A tuple is acked as soon as it
    is in the state, so a window may be longer than the message timeout. With aligned checkpoints and positioned spouts,
    a tuple is in its windows exactly once, and a window has its effect once.

    **Accumulators.** A window has one value: ``initial()``, to which ``add`` adds each tuple. By default it is the list
    of the values of the tuples, as they came. ``merge`` joins the values of two parts of a window. A Session needs it.
    With it, a Sliding window or CountWindow has at most two values per ``every``, which are merged when the window is
    emitted; without it, or with ``early_count``, each window has a value of its own. A window without tuples is not
    emitted.

    **Time.** With ``event_time``, a window is over when the watermark has reached its end. Without it, the clock of the
    machine is the time of tuples and windows. Sizes are rounded to milliseconds.

    **Late tuples.** A tuple before the watermark is still added to its windows that are not over. It is late if all of
    them are over for ``allowed_lateness``, and then treated as in any KeyedProcess. A tuple of a window that was over
    for less time has the window emitted again, with ``window.timing == "late"``.

    **Early windows** have ``window.timing == "early"``. They are emitted while they are not over, if they have tuples
    that no emission of them had.

    FailedException from ``initial`` or ``add`` fails the tuple, which is then in no window. Not guaranteed: with
    FailedException from ``merge``, or if ``add`` changes a value in place before it raises.

    Attributes:
        window: the windows: Tumbling, Sliding, Session or CountWindow.
        allowed_lateness: how long after its end, by the watermark, a window in event time is kept for late tuples.
        early_every: so long after a tuple, in processing time, the windows of its key are emitted early. None: never.
        early_count: a window is emitted early when it has so many tuples that no emission of it had. None: never.
        ttl: of a CountWindow: a key without tuples for this long loses its windows, in processing time.
    """

    window: Kind | None = None
    allowed_lateness: dt.timedelta = dt.timedelta(0)
    early_every: dt.timedelta | None = None
    early_count: int | None = None

    def initial(self) -> Any:
        """Return the value of a window without tuples."""
        return []

    def add(self, value: Any, tup: Tuple) -> Any:
        """Return the value of a window after a tuple. ``value`` itself may be changed and returned."""
        value.append(tup.values)
        return value

    def merge(self, first: Any, second: Any) -> Any:
        """Return the value of two parts of a window. ``first`` may be changed and returned, ``second`` must stay."""
        return first + second

    def on_window(self, key: Any, window: WindowBounds, value: Any) -> Yielded:
        """Act on a window of a key, with the value of its tuples. Rows may be emitted or yielded.

        Their anchors are those of KeyedProcess: the tuple that raised the watermark, that was late, or that completed a
        number of tuples; none if the clock is the reason. Any exception ends the worker.
        """
        raise NotImplementedError

    # The framework's side

    def _takes_late(self, tup: Tuple) -> bool:
        return True

    def declare_output_fields(self, declarer: Any) -> None:
        self._window_settings(declarer.component_id)
        super().declare_output_fields(declarer)

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        super().init_state(state)
        assert self._progress is not None
        self._watermark = self._progress.watermark
        settings = self._window_settings(self.context.component_id)
        self._windows = settings.windows
        self._early_every_ms = settings.early_every_ms
        self._layout = settings.layout
        stored = state.get(LAYOUT)
        if stored != settings.layout and (stored is not None or state.get(PROGRESS) is not None):
            raise UsageError(
                f"component {self.context.component_id!r}: the state has windows of the layout {stored}, and the class "
                f"has {settings.layout}: keep the window and merge as they were, or submit under another name"
            )
        self._is_stored = stored is not None

    def pre_prepare(self, txid: int) -> None:
        super().pre_prepare(txid)
        if not self._is_stored:
            self.state.put(LAYOUT, self._layout)
            self._is_stored = True

    def on_tuple(self, tup: Tuple, state: KeyState[Any], timers: Timers) -> None:
        """Add a tuple to its windows."""
        record: Record | None = state.value
        if record is None:
            record = new_record()
        at_ms = timers.event_time
        if at_ms is None:
            at_ms = floor_ms = timers.now
        else:
            floor_ms = self._watermark.value
        outcome = self._windows.add(record, tup, at_ms, floor_ms)
        if outcome is LATE:
            self._on_late(tup, at_ms, floor_ms)
            return
        if self._early_every_ms is not None and PENDING in record[1] and EARLY not in record[1]:
            record[1][EARLY] = timers.now + self._early_every_ms
            timers.set_processing(record[1][EARLY])
        state.value = record
        if outcome is not None:
            self._set_timer(timers, outcome.timer_ms)
            self._emit_windows(state.key, outcome.firings)

    def on_timer(self, key: Any, time: int, state: KeyState[Any], timers: Timers) -> None:
        """Emit windows that are over, or early windows."""
        record: Record | None = state.value
        if record is None:  # it has expired
            return
        firings: list[Firing] = []
        is_event_time = self.event_time is not None
        if timers.is_processing != is_event_time:
            outcome = self._windows.reach(record, time)
            self._set_timer(timers, outcome.timer_ms)
            firings += outcome.firings
        extras = record[1]
        if timers.is_processing and extras.get(EARLY) == time:
            del extras[EARLY]
            firings += self._windows.early(record, self._watermark.value if is_event_time else time)
        if is_empty(record):
            if EARLY in extras:
                timers.delete_processing(extras[EARLY])
            state.clear()
        else:
            state.value = record
        self._emit_windows(key, firings)

    def _set_timer(self, timers: Timers, time_ms: int | None) -> None:
        if time_ms is not None:
            (timers.set_processing if self.event_time is None else timers.set)(time_ms)

    def _emit_windows(self, key: Any, firings: list[Firing]) -> None:
        for bounds, value in firings:
            try:
                returned = self.on_window(key, bounds, value)
                if returned is not None:
                    self._emit("on_window", returned)
            except FailedException as error:
                raise UsageError(
                    f"component {self.context.component_id!r}: on_window raised {type(error).__name__} for key "
                    f"{key!r}, and a window has no tuple that could fail: {error}"
                ) from error

    def _window_settings(self, component: str) -> WindowSettings:
        """Return the settings. Raises TopologyError for a wrong one."""
        has_initial, has_add, has_merge = (
            getattr(getattr(self, name), "__func__", None) is not getattr(KeyedWindow, name)
            for name in ("initial", "add", "merge")
        )
        if has_initial and not has_add:
            refuse(component, "add", "is missing, and initial needs it: write add(value, tup), the value after a tuple")
        return WindowSettings.of(component, self, has_merge=has_merge or not has_initial)
