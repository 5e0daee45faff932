"""Redirection of printed output into the worker's log, so that ``tupletree logs`` shows it in sequence."""

from __future__ import annotations

import io
import logging
import sys
import threading


class LogWriter(io.TextIOBase):
    """A text stream that logs each complete line. Lines of different threads do not mix."""

    def __init__(self, logger: logging.Logger, level: int) -> None:
        self._logger = logger
        self._level = level
        self._partial = threading.local()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, rest = (getattr(self._partial, "text", "") + text).split("\n")
        self._partial.text = rest
        for line in lines:
            self._logger.log(self._level, "%s", line)
        return len(text)

    def flush(self) -> None:
        """Do nothing: lines are logged when complete."""


def capture() -> None:
    """Redirect stdout and stderr to the log from now on."""
    sys.stdout = LogWriter(logging.getLogger("stdout"), logging.INFO)
    sys.stderr = LogWriter(logging.getLogger("stderr"), logging.WARNING)
