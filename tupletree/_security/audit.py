"""The audit log: caller, change, origin and outcome, also of refused calls. One JSON object per line."""

from __future__ import annotations

import datetime
import json
import logging.handlers
import os
from collections.abc import Callable
from typing import Any

from tupletree._security.rights import Principal
from tupletree.errors import UsageError

Audit = Callable[..., None]


class AuditLog:
    """Appends to ``path``, which is rotated by size and readable only by its owner."""

    def __init__(self, path: str, *, max_bytes: int, backups: int) -> None:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._handler = _Private(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write the audit log {path}: {error.strerror}") from error
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def write(
        self,
        operation: str,
        who: Principal | None,
        peer: str,
        outcome: str,
        *,
        topology: str = "",
        why: str = "",
        **details: Any,
    ) -> None:
        """Add a line. ``outcome`` is done, refused or failed; ``who`` None: tokens are disabled, or none was sent."""
        entry: dict[str, Any] = {
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "operation": operation,
            "who": who.name if who is not None else None,
            "kind": who.kind if who is not None else None,
            "from": peer,
            "topology": topology,
            "outcome": outcome,
        }
        if why:
            entry["why"] = why
        line = json.dumps({**entry, **details}, ensure_ascii=True)
        self._handler.handle(logging.LogRecord("tupletree.audit", logging.INFO, "", 0, line, None, None))

    def close(self) -> None:
        self._handler.close()


class _Private(logging.handlers.RotatingFileHandler):
    def _open(self) -> Any:
        return open(os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")
