"""Levels of loggers that operators set at a running topology, on top of what ``logs.level`` and the code say."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tupletree._log import event
from tupletree._wire.levels import NUMBERS

log = logging.getLogger(__name__)


class LogLevels:
    """The loggers that were given other levels, and what they had before."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def follow(self, levels: Mapping[str, str]) -> None:
        """Let exactly these loggers have these levels ("" is the root), and all others what they had."""
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
