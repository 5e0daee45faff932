"""Settings of a windowed bolt, windows and time, and their validation."""

from __future__ import annotations  # pure

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tupletree.errors import TopologyError
from tupletree.tuples import Tuple

from .lengths import Count, Duration, Length, microseconds

Extractor = Callable[[Tuple], Any]

SECOND = Duration(1)
EVERY_TUPLE = Count(1)


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """The settings of one windowed bolt; None means not set."""

    length: Length | None = None
    slide: Length = EVERY_TUPLE
    timestamp_field: str | None = None
    extractor: Extractor | None = None
    lag: Duration | None = None
    watermark_interval: Duration | None = None
    late_stream: str | None = None
    message_id_field: str | None = None

    @property
    def is_in_event_time(self) -> bool:
        """True if tuples have their own timestamps."""
        return self.timestamp_field is not None or self.extractor is not None

    @property
    def windows(self) -> tuple[Length, Length]:
        """Length and slide. Valid only after ``check``."""
        assert self.length is not None
        return self.length, self.slide

    @property
    def tick_s(self) -> float | None:
        """The tick interval in seconds, or None if no ticks are needed because both length and slide are counts."""
        if self.is_in_event_time:
            return (self.watermark_interval or SECOND).seconds
        if isinstance(self.slide, Duration):
            return self.slide.seconds
        if isinstance(self.length, Duration):  # tuples must be evicted even if no further tuple comes
            return min(self.length.seconds, SECOND.seconds)
        return None

    def timestamp_us(self, tup: Tuple) -> int:
        """Return the timestamp of a tuple, in event time.

        Raises:
            ValueError: the tuple has no valid timestamp. The message describes the actual value.
        """
        if self.timestamp_field is not None:
            if self.timestamp_field not in tup:
                raise ValueError(f"missing (the tuple has the fields {', '.join(tup.fields)})")
            return microseconds(tup[self.timestamp_field])
        assert self.extractor is not None
        try:
            timestamp = self.extractor(tup)
        except Exception as error:  # user code
            raise ValueError(f"an exception of the extractor, {type(error).__name__}: {error}") from error
        return microseconds(timestamp)

    def message_id(self, tup: Tuple) -> int | str:
        """Return the message id of a tuple.

        Raises:
            ValueError: the tuple has no valid id. The message describes the actual value.
        """
        assert self.message_id_field is not None
        if self.message_id_field not in tup:
            raise ValueError(f"missing (the tuple has the fields {', '.join(tup.fields)})")
        message_id = tup[self.message_id_field]
        if not isinstance(message_id, int | str) or isinstance(message_id, bool):
            raise ValueError(f"{message_id!r}, which is neither a whole number nor a string")
        return message_id

    def check(self, component: str, needs_message_ids: bool = False) -> None:
        """Check that the settings are complete and consistent.

        Raises:
            TopologyError: there is no window, a required message id field is missing, there are two sources of
                timestamps, or a setting of event time is used without a source of timestamps.
        """
        if self.length is None:
            _refuse(component, "has no window; call with_window or with_tumbling_window", "window")
        if needs_message_ids and self.message_id_field is None:
            _refuse(component, "has no message id field; call with_message_id_field", "message_id_field")
        if self.timestamp_field is not None and self.extractor is not None:
            _refuse(component, "has both a timestamp field and a timestamp extractor; set only one", "timestamp_field")
        if self.is_in_event_time:
            return
        for setting, value in {
            "lag": self.lag,
            "watermark_interval": self.watermark_interval,
            "late_tuple_stream": self.late_stream,
        }.items():
            if value is not None:
                fault = f"with_{setting} needs event time: call with_timestamp_field or with_timestamp_extractor too"
                _refuse(component, fault, setting)

    def check_limits(
        self, component: str, conf: Mapping[str, Any], takes_checkpoints: bool, acks_wait_s: float = 0
    ) -> None:
        """Check windows against the configuration: tuples held longer than the message timeout are replayed forever.

        ``takes_checkpoints``: true if the topology has stateful bolts. ``acks_wait_s``: the longest delay of an ack.

        Raises:
            TopologyError: tuples would time out in a window; or a window needs more tuples than can be pending; or
                checkpoints would wait for tuples that windows hold.
        """
        if takes_checkpoints and conf["topology.state.checkpoint.aligned"]:
            fault = (
                "holds tuples, for which an aligned checkpoint would wait: topology.state.checkpoint.aligned must be"
            )
            _refuse(component, f"{fault} false in a topology with windows", "topology.state.checkpoint.aligned")
        timeout_s = conf["topology.message.timeout.secs"] if conf["topology.enable.message.timeouts"] else None
        held_s = sum(length.seconds for length in self.windows if isinstance(length, Duration))
        if timeout_s is not None and held_s and held_s + acks_wait_s >= timeout_s:
            parts = "length, slide and checkpoint interval" if acks_wait_s else "length and slide"
            fault = (
                f"holds tuples for {held_s + acks_wait_s:g} seconds ({parts}), and topology.message.timeout.secs is "
            )
            _refuse(component, f"{fault}{timeout_s:g}: the timeout must be longer", "topology.message.timeout.secs")
        pending = conf["topology.max.spout.pending"]
        counts = [length.value for length in self.windows if isinstance(length, Count)]
        held = sum(counts)
        if pending is not None and held > pending:
            fault = f"holds up to {held} tuples (length and slide), and topology.max.spout.pending is {pending}"
            _refuse(component, f"{fault}: it must be at least {held}", "topology.max.spout.pending")


def _refuse(component: str, fault: str, field: str) -> NoReturn:
    raise TopologyError(f"bolt '{component}': {fault}", component=component, field=field)
