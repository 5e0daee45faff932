"""Storage layout of the progress of a transactional topology: paths and encoding.

Below ``transactional.zookeeper.root``, for each transactional id:

===========================  ====================================================  ==========================
node                         value, after the format                               written by
===========================  ====================================================  ==========================
<id>/coordinator/epoch       owner; the node's *version* is the epoch              a coordinator that takes over
<id>/coordinator/progress    committed txid, committing [txid, attempt] or None    the coordinator
<id>/coordinator/meta/<txid> metadata of the transaction                           the coordinator
<id>/user/<partition>        kind of spout, state by txid (partition_states.py)    the emitter of the partition
===========================  ====================================================  ==========================

Every write except that of the epoch itself is one store transaction with a check of the epoch. So nothing that acts for
a replaced coordinator can change the store. A value is ``[format, …]`` in msgpack (tupletree._wire.codec).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tupletree._wire.codec import decode_plain, decode_value, encode_value
from tupletree.attempt import TransactionAttempt
from tupletree.errors import InternalError, ProtocolError, UnregisteredTypeError, UsageError
from tupletree.transactional.store import Check

FORMAT = 1
"""The format version of all values stored here. Raised whenever older versions cannot read a value correctly."""

_LAST_CHARACTER = "\uffef"  # ZooKeeper refuses higher characters


def check_id(transactional_id: str) -> None:
    """Raise UsageError if a transactional id cannot be the name of a node."""
    if not isinstance(transactional_id, str) or transactional_id in {"", ".", "..", "zookeeper"}:
        raise UsageError(
            f"a transactional id cannot be {transactional_id!r}: choose a name for the topology's progress"
        )
    for character in transactional_id:
        if character == "/" or not character.isprintable() or character > _LAST_CHARACTER:
            raise UsageError(f"transactional id {transactional_id!r} contains {character!r}, which no id may")


def topology_path(transactional_id: str) -> str:
    """Return the path of the root node of one id."""
    return f"/{transactional_id}"


def epoch_path(transactional_id: str) -> str:
    return f"/{transactional_id}/coordinator/epoch"


def progress_path(transactional_id: str) -> str:
    return f"/{transactional_id}/coordinator/progress"


def metadata_folder(transactional_id: str) -> str:
    return f"/{transactional_id}/coordinator/meta"


def partitions_folder(transactional_id: str) -> str:
    return f"/{transactional_id}/user"


def partition_path(transactional_id: str, partition: int) -> str:
    return f"/{transactional_id}/user/{partition}"


def epoch_check(transactional_id: str, attempt: TransactionAttempt) -> Check:
    """Return the check to put first into every transaction for an attempt: it fails if its coordinator was replaced."""
    return Check(epoch_path(transactional_id), attempt.epoch)


def decode_progress(path: str, data: bytes) -> tuple[int, TransactionAttempt | None]:
    """Decode the progress stored at ``path``: the last committed transaction, and the attempt about to commit."""
    match decode_record(path, data):
        case [int(committed), None]:
            return committed, None
        case [int(committed), [int(txid), int(attempt)]]:
            return committed, TransactionAttempt(txid, attempt)
    raise InternalError(f"{path} holds something else than the progress of a coordinator")


def encode_stored(path: str, *values: Any) -> bytes:
    """Encode values to store at ``path``.

    Raises UnregisteredTypeError, naming the path, for a value of an unregistered type.
    """
    try:
        return encode_value([FORMAT, *values])
    except UnregisteredTypeError as error:
        raise UnregisteredTypeError(f"what is to be stored at {path} cannot be written: {error}") from None


def decode_stored(path: str, data: bytes) -> list[Any]:
    """Decode values that ``encode_stored`` encoded.

    Raises UsageError if a newer version wrote them, and InternalError if Tupletree did not; both name the path.
    """
    return _decoded(path, data, decode_value)


def decode_record(path: str, data: bytes) -> list[Any]:
    """Decode a node that holds only numbers and names. Nimbus and commands read such nodes too.

    No user-defined value is created. Raises the errors of ``decode_stored``.
    """
    return _decoded(path, data, decode_plain)


def decode_owner(path: str, data: bytes) -> str:
    """Decode the owner that raised the epoch stored at ``path``. Raises the errors of ``decode_stored``."""
    match decode_record(path, data):
        case [str(owner)]:
            return owner
    raise InternalError(f"{path} holds something else than the name of who raised the epoch")


def _decoded(path: str, data: bytes, decode: Callable[[bytes], Any]) -> list[Any]:
    # The format is the first item of a short list, a one-byte number. It is checked before the rest is decoded, because
    # a newer version can store values that this version cannot decode.
    if len(data) < 2 or not 0x91 <= data[0] <= 0x9F or not 1 <= data[1] <= 0x7F:
        raise InternalError(f"{path} holds {len(data)} bytes that Tupletree did not write")
    if data[1] > FORMAT:
        raise UsageError(
            f"{path} was written by a newer version of Tupletree (format {data[1]}, this one knows {FORMAT}); "
            f"upgrade, or use another transactional id"
        )
    try:
        return list(decode(data)[1:])
    except ProtocolError as error:
        raise InternalError(f"what is stored at {path} cannot be read: {error}") from error
