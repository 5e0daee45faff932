"""Metrics that a component in another language reports: the newest number of each name, as a gauge."""

from __future__ import annotations

import logging
import re
from typing import Any

from tupletree.component import TopologyContext
from tupletree.metrics import Gauge

log = logging.getLogger(__name__)


class ChildMetrics:
    """The metrics of one task. Names become those of gauges: ``queueLength`` is ``queue_length``.

    A name that Prometheus does not permit, such as ``wordCount``, gets ``_value`` at its end.
    """

    def __init__(self, context: TopologyContext) -> None:
        self._context = context
        self._gauges: dict[str, Gauge | None] = {}

    def note(self, name: str, value: Any) -> None:
        """Take notice of a value. One that is no number, and a name that cannot be registered, are logged once."""
        if name not in self._gauges and len(self._gauges) < 1000:
            self._gauges[name] = self._registered(name, value)
        gauge = self._gauges.get(name)
        if gauge is not None and isinstance(value, int | float):
            gauge.set(value)

    def _registered(self, name: str, value: Any) -> Gauge | None:
        if not isinstance(value, int | float):
            log.warning("metric %r is %r, and only numbers are shown", name, value)
            return None
        plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
        fault = ""
        for shown in (plain, f"{plain}_value"):
            try:
                return self._context.register_gauge(shown)
            except ValueError as error:
                fault = fault or str(error)
        log.warning("%s", fault)
        return None
