"""Event time: the watermark over the timestamps of all inputs.

Tuples can be out of order, but by at most a *lag*. If the latest timestamp of a stream is ``t``, no tuple before
``t - lag`` is expected on this stream any more. The *watermark* is the minimum of these bounds over all streams. It is
known once every stream has brought a tuple, is updated at intervals, and never goes backwards. A tuple before the last
announced watermark is *late*: its windows are possibly evaluated already.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable

Stream = tuple[str, str]
"""A component and its stream."""


class Watermarks:
    """The watermark of one task. Times are whole microseconds."""

    def __init__(self, streams: Iterable[Stream], lag_us: int, last_us: int | None = None) -> None:
        """``last_us``: the last watermark announced before, if any."""
        self.last_us = last_us
        self._lag_us = lag_us
        self._latest: dict[Stream, int | None] = dict.fromkeys(streams)

    def is_late(self, at_us: int) -> bool:
        """True if a tuple of that time is late."""
        return self.last_us is not None and at_us < self.last_us

    def came(self, stream: Stream, at_us: int) -> None:
        """Record the time of a tuple that has arrived on a stream, late or not."""
        latest = self._latest.get(stream)
        if latest is None or at_us > latest:
            self._latest[stream] = at_us

    def announce(self) -> int | None:
        """Return the watermark if it has risen since the last announcement, else None."""
        latest = [at_us for at_us in self._latest.values() if at_us is not None]
        if len(latest) < len(self._latest) or not latest:
            return None
        watermark_us = min(latest) - self._lag_us
        if self.last_us is not None and watermark_us <= self.last_us:
            return None
        self.last_us = watermark_us
        return watermark_us
