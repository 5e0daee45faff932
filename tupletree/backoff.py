"""Retries: the number of attempts, and the pauses between attempts."""

from __future__ import annotations  # pure

from dataclasses import dataclass
from typing import Final

from tupletree.errors import UsageError


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential pauses: ``first_s`` seconds, then ``factor`` times the pause before, up to ``max_s``.

    ``max_attempts`` counts the first attempt: with 1, nothing is tried again; with None there is no limit.
    """

    first_s: float = 0.1
    factor: float = 2.0
    max_s: float = 60.0
    max_attempts: int | None = 5

    def __post_init__(self) -> None:
        """Raise UsageError for values out of range."""
        attempts = 1 if self.max_attempts is None else self.max_attempts
        if self.first_s < 0 or self.max_s < self.first_s or self.factor < 1 or attempts < 1:
            bounds = "first_s must be at least 0, max_s at least first_s, factor and max_attempts at least 1"
            raise UsageError(f"{self} is not a valid backoff: {bounds}")

    def is_last(self, attempts: int) -> bool:
        """True if there is no further attempt after ``attempts`` failed attempts."""
        return self.max_attempts is not None and attempts >= self.max_attempts

    def pause_s(self, attempts: int) -> float:
        """Return the pause after ``attempts`` failed attempts (at least 1)."""
        try:
            return float(min(self.max_s, self.first_s * self.factor ** (attempts - 1)))
        except OverflowError:
            return self.max_s


FOREVER: Final = Backoff(first_s=0.1, factor=2, max_s=60, max_attempts=None)
"""The retries of sources whose messages are not given up."""
RECONNECT: Final = Backoff(first_s=0.1, factor=2, max_s=30, max_attempts=None)
"""The pauses between attempts to connect."""
