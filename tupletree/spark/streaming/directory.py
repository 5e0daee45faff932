"""The exchange directory: files that topologies and Spark exchange, on a shared file system.

    exchange.json     description of the contents: the component that writes or reads them, and the columns
    rows/             Arrow files. Exported: see offers.py. To be ingested: <query>.<micro-batch>.<unique>.arrow
    published/        ingest only: <query>.<micro-batch>.json, the list of files of a micro-batch
    removed/          <key>.<number>: everything of the key up to the number was removed
    …/.<anything>     being written

A file gets its name only when it is complete: it is written under a temporary name, synced and renamed (linked, if it
must not replace an existing file). Then the directory is synced. A deletion starts with the note in ``removed``.

The highest note of a key counts. A note is never changed, and only notes below the two highest are deleted. So a writer
that was stalled cannot lower the number, and every listing shows at least one of the two highest.

Errors: UnavailableError if the file system refuses an operation.
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

from tupletree._sinks.durable_files import sync
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
    """Description of the contents of an exchange directory.

    ``kind``: TRANSACTIONS or SEGMENTS exported by a topology, or MICRO_BATCHES ingested by a topology. ``component``:
    the id of the component that exports or ingests. ``schema``: as JSON. ``is_opaque``: a replayed transaction can have
    other rows.
    """

    kind: str
    component: str
    schema: str
    is_opaque: bool = False
    format: int = FORMAT

    def columns(self) -> StructType:
        """Return the columns."""
        return StructType.fromJson(json.loads(self.schema))


class ExchangeDirectory:
    """An exchange directory, used by every process."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def describe(self, about: About) -> None:
        """Write the description of the contents. UsageError if the contents are of another kind or component."""
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
        """Create the folders for publishing files."""
        with self._errors():
            for folder in (ROWS, PUBLISHED, REMOVED):
                (self.path / folder).mkdir(parents=True, exist_ok=True)

    def about(self) -> About | None:
        """Return the description of the contents; None if nothing has been written yet."""
        content = self.read("exchange.json")
        if content is None:
            return None
        if content.get("format") != FORMAT:
            raise UsageError(f"{self.path} was written by another version (format {content.get('format')})")
        return About(**content)

    def listing(self, folder: str) -> dict[str, int]:
        """Return the complete files of a folder, with their sizes; empty if there is no folder."""
        found = {}
        with self._errors(), contextlib.suppress(FileNotFoundError), os.scandir(self.path / folder) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    with contextlib.suppress(FileNotFoundError):
                        found[entry.name] = entry.stat().st_size
        return found

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the content of a JSON file; None if there is no file."""
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
        """Publish a file. False if ``replaces`` is false and the file exists or existed before.

        ``place``: the key and the number of the file's contents, by which ``removed`` shows whether the file existed
        before. ``owner``: see ``drafts``.
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
                if not is_new:  # checked after the link: the note was written before the name became free
                    target.unlink(missing_ok=True)
            except FileExistsError:
                is_new = False  # and perhaps not durable yet, if its publisher was killed
            finally:
                with contextlib.suppress(FileNotFoundError):
                    draft.unlink()
            sync(target.parent)
        return is_new

    def sync(self, folder: str) -> None:
        """Make all files published in a folder durable, whoever published them."""
        with self._errors():
            sync(self.path / folder)

    def drafts(self, folder: str) -> list[tuple[str, str]]:
        """Return the owner and name of each file being written in a folder, including files whose writer died."""
        with self._errors(), contextlib.suppress(FileNotFoundError):
            names = [name for name in os.listdir(self.path / folder) if name.startswith(".")]
            return [(name[1:].rpartition(".")[0], f"{folder}/{name}") for name in names]
        return []

    def unlink(self, names: Iterable[str]) -> None:
        """Remove files. The writer of a removed draft gets an UnavailableError and cannot publish the draft."""
        with self._errors():
            for name in names:
                (self.path / name).unlink(missing_ok=True)

    def removed(self) -> dict[str, int]:
        """Return, per key, the number up to which everything was removed."""
        numbers: dict[str, int] = {}
        for name in self.listing(REMOVED):
            key, _, number = name.rpartition(".")
            numbers[key] = max(int(number), numbers.get(key, -1))
        return numbers

    def remove(self, upto: Mapping[str, int], names: Callable[[], Iterator[str]]) -> None:
        """Remove files, after noting that everything up to these numbers is removed. Idempotent."""
        known = self.removed()
        with self._errors():
            for key, number in upto.items():
                if number > known.get(key, -1):
                    (self.path / REMOVED / f"{key}.{number}").touch()
            sync(self.path / REMOVED)
        self.unlink(names())
        for key in upto:
            numbers = [int(name.rpartition(".")[2]) for name in self.listing(REMOVED) if name.startswith(f"{key}.")]
            self.unlink(f"{REMOVED}/{key}.{number}" for number in sorted(numbers)[:-2])

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnavailableError(f"exchange directory {self.path}: {error}") from error
