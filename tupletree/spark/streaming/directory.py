"""The exchange directory: files that topologies and Spark hand each other, on a file system that both see.

    exchange.json     what lies here: by whom it is written, and the columns
    rows/             Arrow files. Exported: as offers.py says. To be ingested: <query>.<micro-batch>.<unique>.arrow
    published/        ingest only: <query>.<micro-batch>.json, which rows make up a micro-batch
    removed/          <key>.<number>: everything of the key up to the number was removed
    …/.<anything>     being written

A file appears under its name whole and durable: it is written under another one, synced and renamed, or linked where
it must not replace one, and then the directory is synced. Deleting starts with the note in ``removed``.

Of the notes of a key the highest counts. They are only ever added, the two highest are kept: so a writer that stood
still cannot lower them, and no listing misses them all.

Errors: UnavailableError if the file system refuses.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pyspark.sql.types import StructType

from tupletree.errors import UnavailableError, UsageError

FORMAT = 1
TRANSACTIONS = "transactions"
SEGMENTS = "segments"
MICRO_BATCHES = "micro-batches"

ROWS = "rows"
PUBLISHED = "published"
REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class About:
    """What lies in an exchange directory.

    ``kind``: TRANSACTIONS or SEGMENTS that a topology exports, or MICRO_BATCHES that one ingests. ``component``: which
    one does. ``schema``: as JSON. ``is_opaque``: a replayed transaction may have other rows.
    """

    kind: str
    component: str
    schema: str
    is_opaque: bool = False
    format: int = FORMAT

    def columns(self) -> StructType:
        """The columns."""
        return StructType.fromJson(json.loads(self.schema))


class ExchangeDirectory:
    """One exchange directory, as every process sees it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def describe(self, about: About) -> None:
        """Say what lies here. UsageError if it is something of another kind."""
        known = self.about()
        if known == about:
            return
        if known is not None and (known.kind, known.component) != (about.kind, about.component):
            raise UsageError(
                f"{self.path} holds {known.kind} of component '{known.component}', not {about.kind} of "
                f"'{about.component}': an exchange directory is for one component"
            )
        self.make_folders()
        self.publish("exchange.json", lambda file: file.write(json.dumps(asdict(about)).encode()))

    def make_folders(self) -> None:
        """See that a file can be published."""
        with self._errors():
            for folder in (ROWS, PUBLISHED, REMOVED):
                (self.path / folder).mkdir(parents=True, exist_ok=True)

    def about(self) -> About | None:
        """What lies here; None if nobody has written yet."""
        content = self.read("exchange.json")
        if content is None:
            return None
        if content.get("format") != FORMAT:
            raise UsageError(f"{self.path} was written by another version (format {content.get('format')})")
        return About(**content)

    def listing(self, folder: str) -> dict[str, int]:
        """The whole files of a folder, each with its size; none if there is no folder."""
        found = {}
        with self._errors(), contextlib.suppress(FileNotFoundError), os.scandir(self.path / folder) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    with contextlib.suppress(FileNotFoundError):
                        found[entry.name] = entry.stat().st_size
        return found

    def read(self, name: str) -> dict[str, Any] | None:
        """A file of JSON; None if there is none."""
        with self._errors():
            try:
                content: dict[str, Any] = json.loads((self.path / name).read_bytes())
            except FileNotFoundError:
                return None
        return content

    def publish(
        self,
        name: str,
        write: Callable[[BinaryIO], object],
        *,
        replaces: bool = True,
        owner: str = "",
        place: tuple[str, int] | None = None,
    ) -> bool:
        """Make a file appear; False if it must not replace one, and one is there or was there.

        ``place``: the key and the number of what the file holds, by which ``removed`` tells whether one was there.
        ``owner``: see ``drafts``.
        """
        target = self.path / name
        draft = target.with_name(f".{owner}.{uuid.uuid4().hex}")
        with self._errors():
            try:
                with open(draft, "xb") as file:
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
                if replaces:
                    os.replace(draft, target)
                else:
                    os.link(draft, target)
                is_new = replaces or place is None or place[1] > self.removed().get(place[0], -1)
                if not is_new:  # now and not before: the note was there before the name was free
                    target.unlink(missing_ok=True)
            except FileExistsError:
                is_new = False  # and perhaps not durable yet, if who published it was killed
            finally:
                with contextlib.suppress(FileNotFoundError):
                    draft.unlink()
            self._sync(target.parent)
        return is_new

    def sync(self, folder: str) -> None:
        """Make durable what has appeared in a folder, by whomever."""
        with self._errors():
            self._sync(self.path / folder)

    def drafts(self, folder: str) -> list[tuple[str, str]]:
        """What is being written there, or was when its writer died: the owner of each and its name."""
        with self._errors(), contextlib.suppress(FileNotFoundError):
            names = [name for name in os.listdir(self.path / folder) if name.startswith(".")]
            return [(name[1:].rpartition(".")[0], f"{folder}/{name}") for name in names]
        return []

    def unlink(self, names: Iterable[str]) -> None:
        """Remove files. One that is being written is not published then, and its writer gets an UnavailableError."""
        with self._errors():
            for name in names:
                (self.path / name).unlink(missing_ok=True)

    def removed(self) -> dict[str, int]:
        """Up to which number everything of each key was removed."""
        numbers: dict[str, int] = {}
        for name in self.listing(REMOVED):
            key, _, number = name.rpartition(".")
            numbers[key] = max(int(number), numbers.get(key, -1))
        return numbers

    def remove(self, upto: Mapping[str, int], names: Callable[[], Iterator[str]]) -> None:
        """Remove files, after a note that everything up to these numbers is. Doing it again does no harm."""
        known = self.removed()
        with self._errors():
            for key, number in upto.items():
                if number > known.get(key, -1):
                    (self.path / REMOVED / f"{key}.{number}").touch()
            self._sync(self.path / REMOVED)
        self.unlink(names())
        for key in upto:
            numbers = [int(name.rpartition(".")[2]) for name in self.listing(REMOVED) if name.startswith(f"{key}.")]
            self.unlink(f"{REMOVED}/{key}.{number}" for number in sorted(numbers)[:-2])

    def _sync(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnavailableError(f"exchange directory {self.path}: {error}") from error
