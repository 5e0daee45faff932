"""States that are read and written in bulk: from the first entry to the last, without being in memory.

A provider that has them is asked for them when the entries of a component move to other tasks, or come from a
savepoint. The states of all other providers are then held in memory (worker/checkpoint/contents.py).
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

Entry = tuple[bytes, bytes]
"""An encoded key, and its encoded value."""


class BulkState(Protocol):
    """The state of one namespace, open for its only writer. Not thread-safe.

    All methods raise UnavailableError; those that write raise AuthorityError if the namespace was opened again since.
    """

    @property
    def committed(self) -> int | None:
        """The last committed checkpoint; None if the state is empty."""

    @property
    def prepared(self) -> int | None:
        """The checkpoint that is prepared and neither committed nor rolled back; None if there is none."""

    def commit(self, txid: int) -> None:
        """Commit the changes prepared under ``txid``, which must be prepared or committed."""

    def rollback(self) -> None:
        """Discard the prepared changes."""

    def scan_encoded(self) -> Iterator[Iterable[Entry]]:
        """Iterate over all committed keys and values, page by page."""

    def add(self, entries: Iterable[Entry]) -> None:
        """Write entries, ascending by key, which count after ``fill``. They replace earlier ones of the same keys."""

    def fill(self, txid: int) -> None:
        """Make the added entries the content of a state that is empty, committed with ``txid``."""

    def close(self) -> None:
        """Release all resources, and discard what was added and does not count."""


@runtime_checkable
class BulkProvider(Protocol):
    """A state provider whose states can be opened in bulk."""

    def open_bulk(self, namespace: str, conf: Mapping[str, Any]) -> BulkState:
        """Open a namespace and become its only writer. ``conf``, errors: as in ``StateProvider.new_state``."""
