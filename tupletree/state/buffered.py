"""State of the built-in providers: an in-memory buffer of reads and changes over a store of bytes.

The value of a key is looked up in this order:

    live        decoded values by key, or ABSENT, that changed since the last prepare_commit
    values      other decoded values by key, or ABSENT. Contains all keys of ``saved``
    backend     committed values, as bytes

    saved       keys that are prepared here and not committed

``prepare_commit`` writes exactly what is in ``live``, and moves it to ``values``. Keys of ``values`` that are not saved
are a cache, which is trimmed when it grows too large.

A state that was empty when it was opened, and has forgotten nothing since, is *whole*: a key that is in neither does
not exist, and the backend need not be read.

Changes prepared by an earlier process are only in the store. A newly opened state reads the previously committed values
until the framework commits these changes.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Any, Final, Protocol

from tupletree._wire.codec import decode_value, encode_value
from tupletree.errors import AuthorityError, ConflictError, ProtocolError, UnregisteredTypeError, UsageError
from tupletree.state.contract import K, KeyValueState, V
from tupletree.state.value_buffer import ABSENT, ValueBuffer

CACHE_ENTRIES: Final = 1_000_000

Changes = Mapping[bytes, bytes | None]
"""Encoded values by encoded key; None means that the key is deleted."""


class Backend(Protocol):
    """Stores the bytes of one namespace for its only writer. Not thread-safe.

    Every method can raise UnavailableError. A write then happened or did not, and the call can be repeated; the write
    cannot take effect after a later call. Writing methods raise AuthorityError, and change nothing, if the namespace
    was opened again since.
    """

    @property
    def committed(self) -> int | None:
        """The last committed checkpoint known here. None means that no key has a committed value."""

    @property
    def prepared(self) -> int | None:
        """The prepared checkpoint known here."""

    def get(self, key: bytes) -> bytes | None:
        """Return the committed value of a key."""

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        """Iterate over all committed keys and values, page by page. The caller writes nothing meanwhile."""

    def prepare(self, txid: int, changes: Changes) -> None:
        """Save the changes under ``txid``, all or none. They replace any prepared changes.

        Raises:
            UsageError: the store can never accept these changes; nothing was changed.
        """

    def commit(self, txid: int) -> None:
        """Commit the changes prepared under ``txid``. Does nothing if ``txid`` is already committed.

        Raises:
            ConflictError: ``txid`` is neither prepared nor committed.
        """

    def rollback(self) -> None:
        """Discard the prepared changes. A commit that has already happened stays, and ``committed`` shows it."""

    def close(self) -> None:
        """Release all resources."""


def superseded(namespace: str) -> AuthorityError:
    """Return the error of a backend whose namespace was opened again."""
    return AuthorityError(f"state {namespace!r} was opened again since: only the task that opened it last may write")


def not_prepared(namespace: str, txid: int) -> ConflictError:
    """Return the error of a backend that should commit a checkpoint that is not prepared."""
    return ConflictError(f"state {namespace!r}: checkpoint {txid} is not prepared in the store")


class BufferedState(ValueBuffer, KeyValueState[K, V]):
    """A state over a backend. ``cache_entries``: the maximum number of unchanged values kept in memory.

    ``is_durable``: false if the backend loses prepared changes when its process ends. A commit of lost changes is then
    not an error.
    """

    def __init__(
        self, namespace: str, backend: Backend, *, cache_entries: int = CACHE_ENTRIES, is_durable: bool = True
    ) -> None:
        super().__init__(namespace, is_whole=backend.committed is None and backend.prepared is None)
        self.committed = backend.committed
        self.prepared = backend.prepared
        self._backend = backend
        self._cache_entries = cache_entries
        self._is_durable = is_durable
        self._saved: Set[Any] = set()
        self._is_inherited = backend.prepared is not None  # an earlier process prepared the changes

    def scan(self) -> Iterator[tuple[K, V]]:
        values = self._values
        changed = {key: values[key] for key in self._saved} | self._live
        for key, value in changed.items():
            if value is not ABSENT:
                yield key, value
        for page in self._backend.scan():
            for encoded, data in page:
                key = decode_value(encoded)
                if key not in changed:
                    value = values.get(key, ABSENT)
                    yield key, self._decoded(key, data) if value is ABSENT else value

    def scan_encoded(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        """Iterate over all committed keys and values as they are stored, page by page. Raises as ``scan``."""
        return self._backend.scan()

    def prepare_encoded(self, txid: int, changes: Changes) -> None:
        """Prepare encoded entries, on a state in which nothing was changed. Raises as ``prepare_commit``."""
        self._check_prepare(txid)
        self._backend.prepare(txid, changes)
        self.prepared = txid
        self._is_inherited = True
        self._is_whole = False

    def prepare_commit(self, txid: int) -> None:
        self._check_prepare(txid)
        live = self._live
        self._backend.prepare(txid, dict(self._encoded(key, value) for key, value in live.items()))
        self.prepared = txid
        self._values.update(live)
        self._saved, self._live = live.keys(), {}

    def _check_prepare(self, txid: int) -> None:
        if self.prepared is not None:
            raise ConflictError(
                f"state {self._namespace!r}: checkpoint {txid} cannot be prepared, as {self.prepared} is prepared "
                f"already: commit or roll back {self.prepared} first"
            )
        if self.committed is not None and txid <= self.committed:
            raise ConflictError(
                f"state {self._namespace!r}: checkpoint {txid} cannot be prepared, as {self.committed} is committed"
            )

    def commit(self, txid: int) -> None:
        if self.prepared == txid:
            if self._is_inherited:  # the commit can change values that were read so far
                self._forget_clean(keep=0)
            self._backend.commit(txid)
            self._ended(txid)
            self._forget_excess()
        elif self.committed != txid and (self._is_durable or self.prepared is not None):
            found = "nothing is prepared" if self.prepared is None else f"{self.prepared} is prepared"
            raise ConflictError(f"state {self._namespace!r}: checkpoint {txid} cannot be committed, as {found}")

    def rollback(self) -> None:
        self._backend.rollback()
        self._values.clear()  # including values changed in place
        self._live.clear()
        self._ended(self._backend.committed)
        self._is_whole = self.committed is None

    def close(self) -> None:
        self._backend.close()

    def _load(self, key: K) -> Any:
        """Return the committed value of a key that is not in memory, or ABSENT, and cache the result."""
        data = self._backend.get(self._encoded_key(key))
        value = ABSENT if data is None else self._decoded(key, data)
        self._values[key] = value
        self._forget_excess()
        return value

    def _ended(self, committed: int | None) -> None:
        """Record that nothing is prepared any more, and the last committed checkpoint."""
        self.committed = committed
        self.prepared = None
        self._saved = set()
        self._is_inherited = False

    def _forget_excess(self) -> None:
        if len(self._values) - len(self._saved) > self._cache_entries:
            self._forget_clean(keep=self._cache_entries // 2)

    def _forget_clean(self, keep: int) -> None:
        """Forget the values that are also in the store, except the newest ``keep`` of them."""
        saved = self._saved
        clean = [key for key in self._values if key not in saved]
        for key in islice(clean, max(0, len(clean) - keep)):
            del self._values[key]
            self._is_whole = False

    def _encoded(self, key: Any, value: Any) -> tuple[bytes, bytes | None]:
        if value is ABSENT:
            return self._encoded_key(key), None
        try:
            return self._encoded_key(key), encode_value(value)
        except UnregisteredTypeError as error:
            raise UnregisteredTypeError(
                f"state {self._namespace!r}, key {key!r}: {error}: put a plain type, mark the class with "
                f"tupletree.value, or register it with tupletree.register_type"
            ) from None

    def _encoded_key(self, key: Any) -> bytes:
        try:
            return encode_value(key)
        except UnregisteredTypeError as error:
            raise UsageError(f"state {self._namespace!r}: key {key!r} cannot be written: {error}") from None

    def _decoded(self, key: Any, data: bytes) -> Any:
        try:
            return decode_value(data)
        except ProtocolError as error:
            raise UsageError(
                f"state {self._namespace!r}, key {key!r}: the stored value cannot be decoded: {error}"
            ) from error
