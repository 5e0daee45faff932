"""What went wrong for one slot, as a sentence; what nobody expected goes into the log with its traceback.

A topology decides much of what an effect meets: its configuration, its bundle, what its workers leave on the disk. So
whatever an effect raises is a failure of that slot. An effect that ended the supervisor would end it again after each
restart, and then the next supervisor that the topology is moved to.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from tupletree._log import event
from tupletree.errors import TupletreeError

MAX_REASON: Final = 1000


def reason(log: logging.Logger, name: str, error: Exception, **context: Any) -> str:
    """Log a failure as the event ``name`` and return its sentence, which any message can hold."""
    text = str(error) if isinstance(error, TupletreeError) else f"{type(error).__name__}: {error}"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")[:MAX_REASON]
    if isinstance(error, TupletreeError):
        event(log, name, cause=text, **context)
    else:
        event(log, name, level=logging.ERROR, cause=text, **context)
        log.error("%s, unexpected:", name, exc_info=error)
    return text
