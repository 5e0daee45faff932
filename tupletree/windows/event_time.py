"""Event time: how far the timestamps of all inputs have come.

Tuples come late and out of order, but not by more than a *lag*. So of a stream whose latest timestamp is ``t`` nothing
before ``t - lag`` is expected any more; and of all streams together nothing before the least of these: the *watermark*.
It is known once every stream has brought a tuple, is looked at from time to time, and never goes back. A tuple before
the watermark that was announced last is *late*: the windows it belongs to may have been evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable

Stream = tuple[str, str]
"""A component and its stream."""


class Watermarks:
    """The watermark of one task. Times are whole microseconds."""

    def __init__(self, streams: Iterable[Stream], lag_us: int, last_us: int | None = None) -> None:
        """``last_us``: what was announced before, if anything was."""
        self.last_us = last_us
        self._lag_us = lag_us
        self._latest: dict[Stream, int | None] = dict.fromkeys(streams)

    def is_late(self, at_us: int) -> bool:
        """Whether a tuple of that time is late."""
        return self.last_us is not None and at_us < self.last_us

    def came(self, stream: Stream, at_us: int) -> None:
        """A tuple of that time has come on a stream, late or not."""
        latest = self._latest.get(stream)
        if latest is None or at_us > latest:
            self._latest[stream] = at_us

    def announce(self) -> int | None:
        """The watermark, if it has risen since it was announced last."""
        latest = [at_us for at_us in self._latest.values() if at_us is not None]
        if len(latest) < len(self._latest) or not latest:
            return None
        watermark_us = min(latest) - self._lag_us
        if self.last_us is not None and watermark_us <= self.last_us:
            return None
        self.last_us = watermark_us
        return watermark_us
