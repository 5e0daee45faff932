"""Objects that the tasks of one worker share, such as a model that is loaded once (TopologyContext.shared)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tupletree._log import event
from tupletree.errors import UsageError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    lock: threading.RLock = field(default_factory=threading.RLock)  # held while the object is made
    value: Any = None
    is_made: bool = False
    is_being_made: bool = False


class SharedObjects:
    """The objects of one worker, by name. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards both
        self._entries: dict[str, _Entry] = {}
        self._closing: list[tuple[str, Callable[[], object]]] = []  # in the order in which the objects were made

    def get(self, name: str, make: Callable[[], Any], close: Callable[[Any], object] | None) -> Any:
        """Return the object of a name. The first caller makes it; others wait for it, and go on if making it fails.

        Raises:
            UsageError: the name is not a text, or ``make`` asks for the same object.
            Exception: whatever ``make`` raises. The object is not there then, and the next caller makes it.
        """
        if not isinstance(name, str) or not name:
            raise UsageError(f"a shared object is named by a text such as 'model', not {name!r}")
        with self._lock:
            entry = self._entries.setdefault(name, _Entry())
        with entry.lock:
            if entry.is_being_made:
                raise UsageError(f"the function that makes the shared object {name!r} asks for this object")
            if not entry.is_made:
                entry.is_being_made = True
                try:
                    entry.value = made = make()
                finally:
                    entry.is_being_made = False
                entry.is_made = True
                if close is not None:
                    with self._lock:
                        self._closing.append((name, lambda: close(made)))
            return entry.value

    def close(self) -> None:
        """Close the objects, the last one first. Call once no task uses them. An error is logged."""
        with self._lock:
            closing, self._closing = self._closing, []
            self._entries = {}
        for name, close in reversed(closing):
            try:
                close()
            except Exception as error:
                event(
                    log,
                    "shared.close_failed",
                    level=logging.WARNING,
                    object=name,
                    error=f"{type(error).__name__}: {error}",
                )
