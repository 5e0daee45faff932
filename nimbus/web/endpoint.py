"""A row of the table of REST endpoints, and the rights that rows require. Pure."""

from __future__ import annotations  # pure

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tupletree._security.rights import Right, Row

from .parameters import OBJECT, Query
from .requests import ApiCall
from .schema_objects import Type

Handler = Callable[[Any, ApiCall], Awaitable[Any]]  # a method of Handlers

PREFIX: Final = "/api/v1"

# ``by`` is "id" (in the path), "topoId" or "file" (in the query).
SEE: Final = Row(Right.KNOWN)  # the response covers only the topologies that the user may see
SEE_ONE: Final = Row(Right.READ, by="id")
SEE_FILE: Final = Row(Right.READ, by="file")
SEE_LOGS: Final = Row(Right.READ, by="topoId")
SEE_ALL: Final = Row(Right.READ)  # without a topology: readers of everything
METRICS: Final = Row(Right.METRICS)
ADMINISTER: Final = Row(Right.ADMIN, mutates=True)
CHANGE_ONE: Final = Row(Right.CHANGE, by="id", mutates=True)
WRITE_STATE: Final = Row(Right.WRITE_STATE, by="id", mutates=True)

_ON: Final = {
    "id": " on the topology `{id}`",
    "file": " on the topology in `file`",
    "topoId": " on the topology `topoId`",
}


@dataclass(frozen=True)
class Endpoint:
    """One method and path. Routing, the enforced right, OpenAPI and docs/rest.md follow from it."""

    method: Literal["GET", "POST"]
    path: str  # below PREFIX, with {…} for path parameters
    row: Row  # required right
    handler: Handler
    reply: Type
    summary: str
    query: Query = field(default_factory=dict)  # without ``callback``, which every GET takes
    body: Mapping[str, Any] = field(default_factory=lambda: OBJECT)  # JSON schema of the body of a POST
    is_cached: bool = True  # a GET whose response is kept for a second
    longest_s: float = 10.0  # for which a standby waits for the leader's response

    @property
    def operation(self) -> str:
        """Method and path, as in the audit log and in error messages."""
        return f"{self.method} {PREFIX}{self.path}"

    @property
    def right(self) -> str:
        """The required right, for descriptions."""
        right = self.row.right
        on = _ON.get(self.row.by, " on all topologies" if right is Right.READ else "")
        return f"`{right.name.lower()}`{on}"
