"""The reason for a slot's failure, as one sentence. Unexpected errors are also logged with their traceback.

Effects depend on input that a topology controls: its configuration, its bundle, and the files of its workers. Any
exception from an effect is therefore a failure of that slot only. If an effect could end the supervisor, it would do so
again after each restart, and then on the next supervisor to which the topology is moved.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from tupletree._log import event
from tupletree.errors import TupletreeError

MAX_REASON: Final = 1000


def reason(log: logging.Logger, name: str, error: Exception, **context: Any) -> str:
    """Log a failure as the event ``name`` and return the reason: valid UTF-8, at most ``MAX_REASON`` characters."""
    text = str(error) if isinstance(error, TupletreeError) else f"{type(error).__name__}: {error}"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")[:MAX_REASON]
    if isinstance(error, TupletreeError):
        event(log, name, cause=text, **context)
    else:
        event(log, name, level=logging.ERROR, cause=text, **context)
        log.error("%s, unexpected:", name, exc_info=error)
    return text
