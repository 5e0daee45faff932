"""The common part of joins: two inputs, what is kept of their tuples, and one timer per key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tupletree.component import Yielded
from tupletree.joins.interval_rules import IntervalBuffer
from tupletree.joins.settings import input_streams, refuse
from tupletree.joins.version_rules import VersionBuffer
from tupletree.keyed.access import KeyState, Timers
from tupletree.keyed.process import KeyedProcess
from tupletree.keyed.settings import event_time_ms
from tupletree.keyed.watermark import BEFORE_ALL
from tupletree.tuples import Tuple


class Join(KeyedProcess):
    """A KeyedProcess with two inputs. A subclass names them, and decides which of their tuples are joined when."""

    kind: str = "inner"

    def keep(self, tup: Tuple) -> Any:
        """Return what is kept of a tuple, and passed to ``join``: by default a dict of its fields.

        Any value that a tuple may carry, but not None: None stands for a missing partner.
        """
        return dict(zip(tup.fields, tup.values, strict=True))

    @property
    def sides(self) -> Mapping[str, Any]:
        """The sources of both sides by their roles, as the class names them."""
        raise NotImplementedError

    @property
    def input_streams(self) -> dict[str, list[tuple[str, str]]]:
        """The components and streams of each side. Other inputs, or a missing one, are refused at build time."""
        return input_streams(type(self).__name__, self.sides)

    def declare_output_fields(self, declarer: Any) -> None:
        component = declarer.component_id
        self._check_settings(component)
        input_streams(component, self.sides)
        super().declare_output_fields(declarer)

    def _check_settings(self, component: str) -> None:
        """Raise TopologyError if the settings of the join are invalid."""
        if self.default_factory is not None:
            refuse(component, "default_factory", "default_factory makes values of a state, and the state is the join's")

    # What follows is called while the topology runs

    def _is_first(self, tup: Tuple) -> bool:
        """True if a tuple is of the side that is named first."""
        return (tup.source_component, tup.source_stream) in self._first

    def init_state(self, state: Any) -> None:
        super().init_state(state)
        self._first = next(iter(self.input_streams.values()))

    def _time_of(self, tup: Tuple) -> int:
        """Return the event time of a tuple, which has one."""
        field = self._settings.event_time
        assert field is not None
        at: int = tup[field]
        if type(at) is not int:
            at = event_time_ms(self.context.component_id, field, tup)
        return at

    def _emit_joined(self, returned: Yielded) -> None:
        """Emit the rows that ``join`` has returned."""
        if returned is not None:
            self._emit("join", returned)

    def _save(self, state: KeyState[Any], timers: Timers, buffer: IntervalBuffer | VersionBuffer) -> None:
        """Save what a key has, and move its timer."""
        timer, due = buffer.record[2], buffer.due
        if timer != due:
            if timer is not None:
                timers.delete(timer)
            if due is not None:
                timers.set(due)
            buffer.record[2] = due
        if not buffer.is_empty:
            state.value = buffer.record
        elif state.exists:
            state.clear()


def watermark_of(timers: Timers) -> int:
    """Return the watermark, or a time before all times if there is none."""
    watermark = timers.watermark
    return BEFORE_ALL if watermark is None else watermark
