"""The copy of a state on the disk of its machine, in RocksDB, from which it is read.

The copy can be lost at any moment, since everything is in the shared store: nothing here is synced, and what is
damaged is made anew. The *position* says what the copy is: the lineage of the state, and the checkpoint. It is written
with the last entries of a checkpoint. A copy that a process still has open, such as a worker that hangs, is left alone:
the next process makes one beside it.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tupletree._sinks.durable_files import unavailable
from tupletree.errors import UnavailableError, UsageError
from tupletree.state.rocksdb.copy_folders import folder_of, last_store, taken
from tupletree.state.rocksdb.segments import PAGE, Entry

if TYPE_CHECKING:
    from rocksdict import Options, Rdict

_log = logging.getLogger(__name__)

R = TypeVar("R")

BATCH_BYTES: Final = 2 << 20

_WRITE_BUFFER_BYTES: Final = 16 << 20  # of each state; twice while one is written
_BLOCK_CACHE_BYTES: Final = 256 << 20  # of all states of the process
_BLOOM_BITS: Final = 10
_OPEN_FILES: Final = 128  # of each state
_POSITION: Final = b"\xc1"  # begins no encoded key


class Position(NamedTuple):
    """The content of a copy: a state, and its checkpoint, or None before the first."""

    lineage: str
    txid: int | None


class CorruptCopyError(UnavailableError):
    """The copy is damaged and must be made anew."""


class LocalCopy:
    """The copy of one namespace, open. Not thread-safe.

    All methods raise UnavailableError, after which the copy is opened again by the next call. ``get``, ``scan`` and
    ``apply`` raise CorruptCopyError.
    """

    def __init__(self, namespace: str, directory: str, shared: str, lineage: str) -> None:
        """Opens nothing yet. Raises UnavailableError if ``directory`` cannot be one."""
        self._folder = self._path = folder_of(namespace, directory, shared)
        self._lineage = lineage
        self._lock: IO[bytes] | None = None
        self._number = 0
        self._db: Rdict | None = None
        self._position: Position | None = None
        self.is_closed = False
        library()
        try:
            os.makedirs(self._folder, exist_ok=True)
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise unavailable(self._folder, error) from error
        except OSError:
            pass  # the first call says so

    def open(self) -> None:
        """Take the folder and open the store, as every call does that finds them closed."""
        self._open()

    @property
    def position(self) -> Position | None:
        """The content of the copy; None if that must be made anew."""
        self._open()
        return self._position

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._use(lambda db: db.get(key))
        return value

    def scan(self) -> Iterator[list[Entry]]:
        """Yield all entries, page by page."""
        entries = self._use(lambda db: db.items())
        last = b""
        while True:
            page: list[Any] = self._use(lambda db: list(islice(entries, PAGE)))
            if not page:
                break
            last = page[-1][0]
            yield [entry for entry in page if entry[0] != _POSITION]
        if not self._use(lambda db: _is_last(db, last)):
            raise CorruptCopyError(f"{self._path}: its entries cannot all be read")

    def apply(self, changes: Iterable[tuple[bytes, bytes | None]], txid: int | None) -> None:
        """Add the changes up to a checkpoint. If it fails, a part of them is there, and the position as it was."""
        from rocksdict import WriteBatch

        batch, size = WriteBatch(raw_mode=True), 0
        for key, value in changes:
            if value:
                batch.put(key, value)
                size += len(value)
            else:
                batch.delete(key)
            size += len(key)
            if size >= BATCH_BYTES:
                self._write(batch)
                batch, size = WriteBatch(raw_mode=True), 0
        batch.put(_POSITION, f"{self._lineage} {'' if txid is None else txid}".encode())
        self._write(batch)
        self._position = Position(self._lineage, txid)

    def clear(self) -> None:
        """Remove everything."""
        self._close()
        self._remove()
        self._open()

    def close(self) -> None:
        self._close()
        self.is_closed = True
        if self._lock is not None:
            self._lock.close()

    @property
    def _database(self) -> str:
        return os.path.join(self._path, f"db-{self._number}")

    def _remove(self) -> None:
        """Remove the store, and go on with another: an iterator that is still in use keeps the first one locked."""
        shutil.rmtree(self._database, ignore_errors=True)
        self._number += 1

    def _write(self, batch: Any) -> None:
        self._use(lambda db: db.write(batch))

    def _use(self, work: Callable[[Rdict], R]) -> R:
        db = self._open()
        try:
            return work(db)
        except Exception as error:  # rocksdict has no class for errors of the store
            self._close()
            raise self._error(error) from error

    def _open(self) -> Rdict:
        """Return the store, opened if necessary. One that is damaged is made anew."""
        if self.is_closed:
            raise UnavailableError(f"{self._path}: the state is closed")
        if self._db is None:
            self._take()
            try:
                self._open_store()
            except CorruptCopyError as error:
                _log.warning("state.copy_discarded error=%s", error)
                self._remove()
                self._open_store()
        assert self._db is not None
        return self._db

    def _take(self) -> None:
        """Lock a folder for the store, unless that is done."""
        if self._lock is None:
            try:
                self._path, self._lock = taken(self._folder)
                self._number = last_store(self._path)
            except OSError as error:
                raise unavailable(self._folder, error) from error

    def _open_store(self) -> None:
        from rocksdict import Rdict

        try:
            self._db = Rdict(self._database, _options())
            self._position = self._read_position(self._db)
        except Exception as error:
            self._close()
            raise self._error(error) from error

    def _read_position(self, db: Rdict) -> Position | None:
        data: bytes | None = db.get(_POSITION)
        if data is None:
            return None
        lineage, _, txid = data.decode().partition(" ")
        return Position(lineage, int(txid) if txid else None)

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(Exception):
                db.close()

    def _error(self, error: Exception) -> UnavailableError:
        text = str(error)
        if "Corruption" in text:
            return CorruptCopyError(f"{self._path}: {text}")
        return UnavailableError(f"{self._path}: {text}")


def _is_last(db: Rdict, key: bytes) -> bool:
    """True if no key is greater. Iterators of rocksdict end at what cannot be read, and only ``status`` says so."""
    place = db.iter()
    place.seek(key)
    if place.valid() and place.key() == key:
        place.next()
    place.status()
    return not place.valid()


def library() -> None:
    """Raise UsageError if the package rocksdict is not installed."""
    try:
        import rocksdict  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "the state provider 'rocksdb' needs the package rocksdict: pip install 'tupletree[rocksdb]'"
        ) from error


def _options() -> Options:
    from rocksdict import BlockBasedOptions, Options

    tables = BlockBasedOptions()
    tables.set_bloom_filter(_BLOOM_BITS, False)
    tables.set_block_cache(_block_cache(os.getpid()))
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_max_open_files(_OPEN_FILES)
    options.set_keep_log_file_num(2)
    options.set_block_based_table_factory(tables)
    return options


@cache
def _block_cache(process: int) -> Any:
    from rocksdict import Cache

    return Cache(_BLOCK_CACHE_BYTES)
