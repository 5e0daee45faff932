"""A client of an object store of which one request fails, with its effect at once, late or never."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from obstore.exceptions import BaseError, GenericError


class LateClient:
    """A client whose request number ``at`` fails. Its effect comes after ``lateness`` further requests, or never."""

    def __init__(self, client: Any, at: int, lateness: int | None) -> None:
        self._client = client
        self._at = at
        self._lateness = lateness
        self._late: tuple[Callable[[], Any], int] | None = None
        self.count = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            return self._request(lambda: getattr(self._client, name)(*arguments, **named))

        return call

    def _request(self, work: Callable[[], Any]) -> Any:
        self.count += 1
        if self.count == self._at and self._lateness is not None:
            self._late = work, self._at + self._lateness
        if self._late is not None and self.count >= self._late[1]:
            late, self._late = self._late[0], None
            with suppress(BaseError, FileNotFoundError):
                late()
        if self.count == self._at:
            raise GenericError("the connection was lost")
        return work()
