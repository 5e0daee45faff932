"""Redirection of printed output into the worker's log, so that ``tupletree logs`` shows it in sequence."""

from __future__ import annotations

import io
import logging
import sys
import threading
from typing import Final

MAX_PARTIAL: Final = 16 * 1024
"""A line that is not complete is logged at this length."""


class _OfThread(threading.local):
    is_logging = False  # a line, at present


_of_thread = _OfThread()


class LogWriter(io.TextIOBase):
    """A text stream that logs each complete line. Lines of different threads do not mix.

    As on a terminal, text after a carriage return takes the place of the text before it: of a progress bar the last
    state is logged.

    What is printed while a line is logged is dropped. Logging itself prints a traceback where a handler fails, such as
    that of a full disk: logged too, it would fail again, and so on, with as many tracebacks as each has lines.
    """

    def __init__(self, logger: logging.Logger, level: int) -> None:
        self._logger = logger
        self._level = level
        self._partial = threading.local()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if _of_thread.is_logging:
            return len(text)
        *lines, rest = (getattr(self._partial, "text", "") + text).split("\n")
        rest = _last_state(rest)
        if len(rest) > MAX_PARTIAL:
            lines, rest = [*lines, rest], ""
        self._partial.text = rest
        _of_thread.is_logging = True
        try:
            for line in lines:
                self._logger.log(self._level, "%s", _last_state(line).removesuffix("\r"))
        finally:
            _of_thread.is_logging = False
        return len(text)

    def flush(self) -> None:
        """Do nothing: lines are logged when complete."""


def _last_state(line: str) -> str:
    """Return what follows the last carriage return, apart from one that ends the line."""
    return line[line.rfind("\r", 0, len(line) - 1) + 1 :] if "\r" in line else line


def capture() -> None:
    """Redirect stdout and stderr to the log from now on."""
    sys.stdout = LogWriter(logging.getLogger("stdout"), logging.INFO)
    sys.stderr = LogWriter(logging.getLogger("stderr"), logging.WARNING)
