"""Savepoints that nimbus takes for callers of REST: where they go, and what becomes of an attempt.

    <nimbus.savepoints.address>/<name of the topology>/<to>

So a caller chooses a name, and never a place: who may change a topology writes below that topology alone.
"""

from __future__ import annotations  # pure

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tupletree._limits import shown
from tupletree.errors import UsageError

KEY: Final = "nimbus.savepoints.address"
_TO: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://.+")
_CONTAINER_FIRST: Final = ("abfs", "abfss")
"""Schemes of Azure, whose addresses begin with container@account."""
_MAX_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class Attempt:
    """The last savepoint of a topology. ``error``: the reason, if it failed; the rest is known when it is done."""

    address: str
    began_unix_s: float
    state: Literal["running", "done", "failed"] = "running"
    ended_unix_s: float | None = None
    checkpoint: int | None = None
    entries: Mapping[str, int] = field(default_factory=dict)
    error: str = ""


def address_fault(address: object) -> str | None:
    """Return the fault of a value of the key, or None."""
    if address is None:
        return None
    if not isinstance(address, str) or not (address.startswith("/") or _SCHEME.fullmatch(address)):
        return f"must be an absolute path or an address such as s3://bucket/folder, not {shown(address)}"
    scheme, _, rest = address.partition("://")
    user, _, host = rest.partition("/")[0].rpartition("@")
    if user and (":" in user or not host or scheme not in _CONTAINER_FIRST):
        return "must have no user or password, which callers would see: credentials come from nimbus's environment"
    return None


def address_of(root: str | None, name: str, to: object, began_unix_s: float) -> str:
    """Return the address of a savepoint. ``to`` None: named by the time. Raises UsageError."""
    if root is None:
        raise UsageError(
            f"this cluster takes no savepoints over REST, since {KEY} is not set: run 'tupletree savepoint {name}'"
        )
    if to is None:
        to = f"{began_unix_s:.0f}"
    if not isinstance(to, str) or not _TO.fullmatch(to):
        raise UsageError(
            f"to is a name of 1 to 100 letters, digits, '.', '_' and '-', the first a letter or a digit, "
            f"not {shown(to)}"
        )
    place, mark, options = root.partition("?") if "://" in root else (root, "", "")
    return f"{place.rstrip('/')}/{name}/{to}{mark}{options}"


def ended(attempt: Attempt, status: int, out: str, err: str, now_unix_s: float) -> Attempt:
    """Return an attempt after its command has ended with an exit status and this output."""
    over = replace(attempt, ended_unix_s=now_unix_s)
    if status == 0:
        try:
            found: Any = json.loads(out)
            entries = {str(id): int(count) for id, count in found["entries"].items()}
            return replace(over, state="done", checkpoint=int(found["checkpoint"]), entries=entries)
        except (ValueError, LookupError, TypeError, AttributeError):
            return failed(over, "the command said nothing that is known here", now_unix_s)
    lines = [line for line in err.splitlines() if line.strip()]
    said = lines[-1].removeprefix("tupletree: ") if lines else f"the command ended with exit status {status}"
    return failed(over, said, now_unix_s)


def failed(attempt: Attempt, reason: str, now_unix_s: float) -> Attempt:
    """Return an attempt that has failed."""
    return replace(attempt, state="failed", ended_unix_s=now_unix_s, error=reason[:_MAX_REASON])
