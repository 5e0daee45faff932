"""Logging as events with context: ``slot.launched topology=wc-1 slot=6700``."""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
from typing import Any, Final

from tupletree.errors import UsageError

FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s %(message)s"
DATE_FORMAT: Final = "%Y-%m-%dT%H:%M:%S"

# Libraries that log each reconnect at INFO or above; our own events report the same.
_QUIET: Final = {"kazoo": logging.WARNING, "asyncio": logging.WARNING}


def setup_logging(
    role: str,
    log_dir: str | None,
    level: str = "INFO",
    *,
    max_bytes: int = 10 * 1024 * 1024,
    backups: int = 5,
) -> None:
    """Send this process' log to ``<log_dir>/<role>.log`` (rotated by size), or to stderr without a directory.

    Replaces the handlers of an earlier call. Raises UsageError if ``level`` is unknown or the file cannot be written.
    """
    number = logging.getLevelName(level.upper())
    if not isinstance(number, int):
        raise UsageError(f"logs.level is {level!r}, expected one of DEBUG, INFO, WARNING, ERROR")
    handler: logging.Handler
    if log_dir is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        path = os.path.join(log_dir, f"{role}.log")
        try:
            os.makedirs(log_dir, exist_ok=True)
            handler = logging.handlers.RotatingFileHandler(
                path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8"
            )
        except OSError as error:
            raise UsageError(f"cannot write the log {path}: {error.strerror}") from error
    handler.setFormatter(logging.Formatter(FORMAT, DATE_FORMAT))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(number)
    for name, minimum in _QUIET.items():
        logging.getLogger(name).setLevel(max(minimum, number))


_MAX_VALUE: Final = 4000


def event(logger: logging.Logger, name: str, *, level: int = logging.INFO, **context: Any) -> None:
    """Log one state transition: ``name`` ("slot.launched") and its context, as ``key=value`` in order.

    A value with spaces, quotes, line breaks or control characters is quoted, so that an event is always one line and
    contains no terminal escape sequences.
    """
    if logger.isEnabledFor(level):
        logger.log(level, "%s", " ".join([name, *(f"{key}={_shown(value)}" for key, value in context.items())]))


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    if len(text) > _MAX_VALUE:
        text = f"{text[:_MAX_VALUE]}…"
    if not text or not text.isprintable() or any(char.isspace() or char in "\"'=" for char in text):
        return repr(text)
    return text


def logs_to_file() -> bool:
    """True if this process logs to a file and therefore not to stderr."""
    return any(isinstance(handler, logging.FileHandler) for handler in logging.getLogger().handlers)
