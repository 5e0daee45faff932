"""Logger levels that operators set in a running topology. They override ``logs.level`` and the code."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tupletree._log import event
from tupletree._wire.levels import NUMBERS

log = logging.getLogger(__name__)


class LogLevels:
    """The loggers with overridden levels, and their previous levels."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def apply(self, levels: Mapping[str, str]) -> None:
        """Set exactly these loggers to these levels ("" is the root), and restore the levels of all others."""
        for name in self._before.keys() - levels.keys():
            level = self._before.pop(name)
            logging.getLogger(name).setLevel(level)
            event(log, "log.restored", of=name or "root", to=logging.getLevelName(level))
        for name, level_name in levels.items():
            logger = logging.getLogger(name)
            before = self._before.setdefault(name, logger.level)
            if logger.level != NUMBERS[level_name]:
                event(log, "log.changed", of=name or "root", to=level_name, was=logging.getLevelName(before))
                logger.setLevel(NUMBERS[level_name])
