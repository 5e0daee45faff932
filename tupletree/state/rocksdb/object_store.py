"""The shared store in S3, Google Cloud Storage or Azure Blob Storage, by the package obstore.

Creating a manifest is a write that fails if the name is taken (If-None-Match). A folder cannot be removed in one step
there: its last manifest stays, without a writer, so that a writer that is late finds its number taken.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tupletree._extras import OBJECTSTORE, imported
from tupletree.errors import UnavailableError, UsageError
from tupletree.state.names import readable_name
from tupletree.state.object_options import cause_of, is_of_bucket
from tupletree.state.rocksdb.manifests import decode_manifest, encode_manifest, manifest_name, manifest_number, removed
from tupletree.state.rocksdb.read_ahead import END_BYTES, ReadAhead
from tupletree.state.rocksdb.segments import Entry, damaged, encode_segment

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

PART_BYTES: Final = 8 << 20
"""A larger segment is uploaded in parts. A store takes at most 10,000 of them."""

_PARTS_AT_ONCE: Final = 4
_CONNECT_S: Final = 5.0
_RETRIES: Final = 3
_TRIES: Final = 10


class ObjectStore:
    """The folders of states below an address, such as ``s3://bucket/states``."""

    def __init__(self, address: str, client: Client) -> None:
        self.address = address
        self.client = client
        self.is_checked = False
        self._there: set[str] = set()

    def folder(self, namespace: str) -> ObjectFolder:
        return ObjectFolder(self, namespace)

    def gone(self, folders: Iterable[str]) -> list[str]:
        """Return the folders whose states do not exist. A state that was found before is not looked for again."""
        names = set(folders) - self._there
        gone = [name for name in names if self._is_gone(name)]
        self._there |= names.difference(gone)
        return gone

    def _is_gone(self, folder: str) -> bool:
        names = self.names(folder)
        number = max(map(manifest_number, names), default=0)
        has_segments = any(not manifest_number(name) for name in names)
        return not number or (not has_segments and self.is_removed(folder, number))

    def is_removed(self, folder: str, number: int) -> bool:
        """True if the manifest of that number says that the state was removed."""
        name = f"{folder}/{manifest_name(number)}"
        with suppress(UsageError, FileNotFoundError):  # damaged, or replaced
            return decode_manifest(name, self.read(name)).is_removed
        return False

    def names(self, folder: str) -> list[str]:
        """Return the names of the objects in a folder."""
        with self.errors(folder):
            pages = [*self.client.list(folder)]
        return [one["path"].rpartition("/")[2] for page in pages for one in page]

    def read(self, key: str) -> bytes:
        """Return the content of an object. Raises FileNotFoundError."""
        with self.errors(key):
            return bytes(self.client.get(key).bytes())

    @contextmanager
    def errors(self, key: str) -> Iterator[None]:
        """Turn errors of obstore into FileNotFoundError, AlreadyExistsError and UnavailableError."""
        exceptions = imported("obstore.exceptions", OBJECTSTORE, self.address)
        try:
            yield
        except FileNotFoundError as error:
            if is_of_bucket(str(error)):
                raise self._unavailable(error) from error
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.address}/{key}") from error
        except exceptions.AlreadyExistsError:
            raise
        except (exceptions.BaseError, PermissionError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> UnavailableError:
        return UnavailableError(f"the object store {self.address} cannot be used: {cause_of(str(error))}")


class ObjectFolder:
    """The objects of one state."""

    def __init__(self, store: ObjectStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._folder = readable_name(namespace)
        self.path = f"{store.address}/{self._folder}"

    def check_store(self) -> None:
        pass

    def make(self) -> None:
        pass

    def names(self) -> list[str]:
        return self._store.names(self._folder)

    def read(self, name: str) -> bytes:
        return self._store.read(self._key(name))

    def create(
        self, name: str, data: bytes, temporary: str, before: tuple[str, bytes] | None = None
    ) -> list[str] | None:
        if not self._put_new(name, data):
            return None
        if not self._store.is_checked:
            self._check_conditions(name, data)
        return self.names()

    def _check_conditions(self, name: str, data: bytes) -> None:
        """Raise UsageError if the store writes an object whose name is taken, as some that imitate S3 do."""
        if self._put_new(name, data):
            if max(map(manifest_number, self.names())) > manifest_number(name):
                return  # a successor has deleted the object before it was written again
            raise UsageError(
                f"the object store {self._store.address} does not refuse to write an object whose name is taken "
                f"(If-None-Match), so that two writers of a state could not be kept apart: choose another store"
            )
        self._store.is_checked = True

    def _put_new(self, name: str, data: bytes) -> bool:
        exceptions = imported("obstore.exceptions", OBJECTSTORE, self.path)
        key = self._key(name)
        try:
            with self._store.errors(key):
                self._store.client.put(key, data, mode="create", use_multipart=False)
        except exceptions.AlreadyExistsError:
            return False
        return True

    def write(self, name: str, entries: Iterable[Entry]) -> int:
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for piece in encode_segment(entries):
                size += len(piece)
                yield piece

        pieces = counted()
        begin: list[bytes] = []
        for piece in pieces:
            begin.append(piece)
            if size > PART_BYTES:
                break
        key, client = self._key(name), self._store.client
        with self._store.errors(key):
            if size <= PART_BYTES:
                client.put(key, b"".join(begin), use_multipart=False)
            else:
                parts = chain(begin, pieces)
                client.put(key, parts, use_multipart=True, chunk_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE)
        return size

    def open(self, name: str, size: int) -> ObjectFile:
        return ObjectFile(self._store, self._key(name), size)

    def delete(self, names: Iterable[str]) -> None:
        with suppress(OSError, UnavailableError):
            self._delete(names)

    def remove(self) -> None:
        for _ in range(_TRIES):
            names = self.names()
            number = max(map(manifest_number, names), default=0)
            if not number or self._store.is_removed(self._folder, number):
                self._delete(name for name in names if name != manifest_name(number))
                return
            last = removed(self._namespace, uuid.uuid4().hex, number)
            self._put_new(last.file_name, encode_manifest(last))
        raise UnavailableError(f"{self.path} changes too fast to be removed; repeat the request")

    def _delete(self, names: Iterable[str]) -> None:
        keys = [*map(self._key, names)]
        if keys:
            with self._store.errors(keys[0]), suppress(FileNotFoundError):
                self._store.client.delete(keys)

    def _key(self, name: str) -> str:
        return f"{self._folder}/{name}"


class ObjectFile:
    """A segment in an object store, read by range requests."""

    def __init__(self, store: ObjectStore, key: str, size: int) -> None:
        self._store = store
        self._key = key
        self.path = f"{store.address}/{key}"
        self._bytes = ReadAhead(self._fetch, size, self._end(size))

    def read(self, offset: int, length: int) -> bytes:
        return self._bytes.read(offset, length)

    def close(self) -> None:
        pass

    def _end(self, size: int) -> bytes:
        """Return the end of an object. Raises UsageError if it has another size."""
        if not size:
            raise damaged(self.path)
        with self._store.errors(self._key):
            try:
                found = self._store.client.get(self._key, options={"range": (max(0, size - END_BYTES), size)})
                total, end = found.meta["size"], bytes(found.bytes())
            except FileNotFoundError:
                raise
            except Exception:
                total, end = self._store.client.head(self._key)["size"], b""  # so short that it has no such range
                if total == size:
                    raise
        if total != size:
            raise damaged(self.path)
        return end

    def _fetch(self, begin: int, end: int) -> bytes:
        with self._store.errors(self._key):
            return bytes(self._store.client.get_range(self._key, start=begin, end=end))


def object_store(address: str, options: Mapping[str, Any]) -> ObjectStore:
    """Return the store of an address, whose connections the states of a process share.

    Raises UsageError if obstore is missing, or refuses the address or the options.
    """
    chosen = tuple(sorted(options.get("storage_options", {}).items()))
    return _connected(os.getpid(), address.rstrip("/"), chosen, options.get("timeout_s", 20.0))


@lru_cache(maxsize=32)
def _connected(process: int, address: str, chosen: tuple[tuple[str, Any], ...], timeout_s: float) -> ObjectStore:
    stores = imported("obstore.store", OBJECTSTORE, f"a state at {address}")
    exceptions = imported("obstore.exceptions", OBJECTSTORE, f"a state at {address}")
    limit = timedelta(seconds=timeout_s)
    try:
        client = stores.from_url(
            address,
            config=dict(chosen),
            client_options={
                "allow_http": True,  # which an endpoint must ask for
                "connect_timeout": min(limit, timedelta(seconds=_CONNECT_S)),
                "timeout": limit,
            },
            retry_config={"max_retries": _RETRIES, "retry_timeout": limit},
        )
    except (exceptions.BaseError, ValueError, TypeError) as error:
        raise UsageError(f"the object store {address} cannot be used: {cause_of(str(error))}") from error
    return ObjectStore(address, client)
