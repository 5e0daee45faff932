"""The state of the built-in providers: what was read and changed is in memory, and a store takes the changes.

Where the value of a key is looked for, first to last:

    values      decoded values by key, or ABSENT. A key of ``live`` or ``saved`` is always here
    backend     what is committed, as bytes

    live        keys that were changed since the last prepare_commit
    saved       keys that are prepared here and not committed

``prepare_commit`` writes the keys of ``live`` and no others, whatever else there is. All other keys of ``values`` are a
cache: they may be forgotten at any time, and are when there are too many.

A state that was empty when it was opened, and has forgotten nothing since, is *whole*: what is not in ``values`` is
nowhere, and the backend need not be asked.

What an earlier process prepared is in the store only: until it is told to commit that, a state that was opened anew
reads what was committed before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Protocol

from tupletree._wire.codec import decode_value, encode_value
from tupletree.errors import AuthorityError, ConflictError, ProtocolError, UnregisteredTypeError, UsageError
from tupletree.state.contract import K, KeyValueState, V

CACHE_ENTRIES: Final = 1_000_000

Changes = Mapping[bytes, bytes | None]
"""Values by key, both encoded; None: the key is deleted."""

ABSENT: Final[Any] = object()
_PLAIN: Final = frozenset({str, bytes, int})


class Backend(Protocol):
    """Stores the bytes of one namespace for its only writer. One thread.

    Every method may raise UnavailableError. What a writing one was to do has then happened or not, and it may be called
    again; it does not happen later, once another one was called. Writing methods raise AuthorityError, and change
    nothing, if the namespace was opened again since.
    """

    @property
    def committed(self) -> int | None:
        """The last checkpoint committed, as far as is known here. None: no key has a committed value."""

    @property
    def prepared(self) -> int | None:
        """The checkpoint prepared, as far as is known here."""

    def get(self, key: bytes) -> bytes | None:
        """The committed value of a key."""

    def scan(self) -> Iterator[Iterable[tuple[bytes, bytes]]]:
        """All committed keys with their values, each once, page by page. Nothing is written meanwhile."""

    def prepare(self, txid: int, changes: Changes) -> None:
        """Save the changes under ``txid``, all or none. They replace whatever is prepared.

        Raises:
            UsageError: the store can never take them; nothing was changed.
        """

    def commit(self, txid: int) -> None:
        """Make what is prepared under ``txid`` the committed state. Nothing, if that is committed already.

        Raises:
            ConflictError: it is neither prepared nor committed.
        """

    def rollback(self) -> None:
        """Discard what is prepared. A commit that had happened stays, and ``committed`` tells."""

    def close(self) -> None:
        """Give up what is held open."""


def superseded(namespace: str) -> AuthorityError:
    """What a backend raises when the namespace was opened again."""
    return AuthorityError(f"state {namespace!r} was opened again since: only the last to open it may write")


def not_prepared(namespace: str, txid: int) -> ConflictError:
    """What a backend raises when it is to commit what is not there."""
    return ConflictError(f"state {namespace!r}: checkpoint {txid} is not prepared in the store")


class BufferedState(KeyValueState[K, V]):
    """A state over a backend. ``cache_entries``: how many values that need not be saved are kept in memory.

    ``is_durable`` False: the backend loses what is prepared when its process ends, so that a commit of it is no error.
    """

    def __init__(
        self, namespace: str, backend: Backend, *, cache_entries: int = CACHE_ENTRIES, is_durable: bool = True
    ) -> None:
        self.committed = backend.committed
        self.prepared = backend.prepared
        self._namespace = namespace
        self._backend = backend
        self._cache_entries = cache_entries
        self._is_durable = is_durable
        self._values: dict[Any, Any] = {}
        self._live: set[Any] = set()
        self._saved: set[Any] = set()
        self._is_inherited = backend.prepared is not None  # what is prepared was prepared by an earlier process
        self._is_whole = backend.committed is None and backend.prepared is None

    def get(self, key: K, default: V | None = None) -> V | None:
        if type(key) not in _PLAIN:
            check_key(self._namespace, key)
        try:
            value = self._values[key]
        except KeyError:
            value = self._load(key)
        return default if value is ABSENT else value

    def put(self, key: K, value: V) -> None:
        if type(key) not in _PLAIN:
            check_key(self._namespace, key)
        self._values[key] = value
        self._live.add(key)

    def delete(self, key: K) -> None:
        if type(key) not in _PLAIN:
            check_key(self._namespace, key)
        self._values[key] = ABSENT
        self._live.add(key)

    def items(self) -> Iterator[tuple[K, V]]:
        values = self._values
        changed = self._live | self._saved
        for key in changed:
            if values[key] is not ABSENT:
                yield key, values[key]
        for page in self._backend.scan():
            for encoded, data in page:
                key = decode_value(encoded)
                if key not in changed:
                    value = values.get(key, ABSENT)
                    yield key, self._decoded(key, data) if value is ABSENT else value

    def prepare_commit(self, txid: int) -> None:
        if self.prepared is not None:
            raise ConflictError(
                f"state {self._namespace!r}: checkpoint {txid} cannot be prepared, as {self.prepared} is prepared: "
                f"commit it or roll it back"
            )
        if self.committed is not None and txid <= self.committed:
            raise ConflictError(
                f"state {self._namespace!r}: checkpoint {txid} cannot be prepared, as {self.committed} is committed"
            )
        values = self._values
        self._backend.prepare(txid, dict(self._encoded(key, values[key]) for key in self._live))
        self.prepared = txid
        self._saved, self._live = self._live, set()

    def commit(self, txid: int) -> None:
        if self.prepared == txid:
            if self._is_inherited:  # then what was read so far may not be what is committed then
                self._forget_clean(keep=0)
            self._backend.commit(txid)
            self._ended(txid)
            self._forget_excess()
        elif self.committed != txid and (self._is_durable or self.prepared is not None):
            found = "nothing is prepared" if self.prepared is None else f"{self.prepared} is prepared"
            raise ConflictError(f"state {self._namespace!r}: checkpoint {txid} cannot be committed, as {found}")

    def rollback(self) -> None:
        self._backend.rollback()
        self._values.clear()  # and what was changed in place with it
        self._live.clear()
        self._ended(self._backend.committed)
        self._is_whole = self.committed is None

    def close(self) -> None:
        self._backend.close()

    def _load(self, key: K) -> Any:
        """The committed value of a key that is not in memory, or ABSENT; either is kept."""
        if self._is_whole:
            return ABSENT
        data = self._backend.get(self._encoded_key(key))
        value = ABSENT if data is None else self._decoded(key, data)
        self._values[key] = value
        self._forget_excess()
        return value

    def _ended(self, committed: int | None) -> None:
        """Nothing is prepared any more."""
        self.committed = committed
        self.prepared = None
        self._saved = set()
        self._is_inherited = False

    def _forget_excess(self) -> None:
        # The sum counts a key twice that was saved and changed again: it is exact enough to decide when to look.
        if len(self._values) - len(self._live) - len(self._saved) > self._cache_entries:
            self._forget_clean(keep=self._cache_entries // 2)

    def _forget_clean(self, keep: int) -> None:
        """Forget values that are in the store too, but ``keep`` of those that came last."""
        live, saved = self._live, self._saved
        clean = [key for key in self._values if key not in live and key not in saved]
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
                f"state {self._namespace!r}, key {key!r}: {error}: put a plain type, or register it with "
                f"tupletree.register_type"
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
                f"state {self._namespace!r}, key {key!r}: what is stored cannot be read here: {error}"
            ) from error


def check_key(namespace: str, key: Any) -> None:
    """Refuse what is no key, with a UsageError. A number that is no int would be taken for the int that it equals."""
    culprit = _culprit(key)
    if culprit is not ABSENT:
        where = "" if culprit is key else f" in {key!r}"
        raise UsageError(
            f"state {namespace!r}: a key is a str, bytes, an int or a tuple of these, and {culprit!r}{where} is of "
            f"type {type(culprit).__qualname__}"
        )


def _culprit(key: Any) -> Any:
    """What in a key is none of the types that a key has; ABSENT if nothing is."""
    if type(key) in _PLAIN:
        return ABSENT
    if type(key) is tuple:
        return next((found for found in map(_culprit, key) if found is not ABSENT), ABSENT)
    return key
