"""The interface of stores of dead letters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from tupletree.dead_letters.letter import Letter
from tupletree.errors import ProtocolError

Position = tuple[float, str]
"""The time and the id of a letter: its place in the order of letters."""

Damaged = Callable[[str, ProtocolError], None]
"""Called with the id of an entry that is not a letter, and the error that names the entry."""


class DeadLetterStore(ABC):
    """Letters by id, ordered by time and id.

    Every method can raise UnavailableError; a write then happened or did not, and can be repeated. Every method that
    reads letters can raise ProtocolError, which names an entry that is not a letter. No method decodes a row.
    """

    @abstractmethod
    def add(self, letters: Sequence[Letter]) -> None:
        """Store letters durably, all or none. A letter stored before keeps its time, and loses its mark for replay."""

    @abstractmethod
    def count(self) -> int | None:
        """Return the number of letters; None if the store is a file that does not exist yet or has no letters in it."""

    @abstractmethod
    def letters(
        self,
        name: str = "",
        *,
        replayed: bool | None = None,
        limit: int = 1000,
        newest: bool = False,
        after: Position | None = None,
        rows: bool = True,
        damaged: Damaged | None = None,
    ) -> list[Letter]:
        """Return letters, oldest first: those of a topology ("" for all), and only those that are replayed, or are not.

        ``newest``: newest first. ``after``: only letters that follow this place in the order. ``rows``: false leaves
        ``row`` of the letters empty, which can be large. ``damaged``: called for each entry that is not a letter, which
        is then skipped; by default such an entry raises ProtocolError.

        Replayed letters are found without reading the others, except in a store that an earlier version has written:
        the first call then reads all letters.
        """

    @abstractmethod
    def find(self, id: str) -> Letter | None:
        """Return the letter with this id, without its row; None if there is none."""

    @abstractmethod
    def ids(
        self, name: str = "", *, replayed: bool | None = None, until_s: float | None = None, limit: int = 1000
    ) -> list[str]:
        """Return ids of letters, oldest first, chosen as ``letters`` does, and stored at ``until_s`` or earlier."""

    @abstractmethod
    def replay(self, ids: Iterable[str]) -> None:
        """Mark letters for a DeadLetterSpout. Unknown ids are skipped."""

    @abstractmethod
    def remove(self, ids: Iterable[str]) -> None:
        """Remove letters. Unknown ids are skipped."""
