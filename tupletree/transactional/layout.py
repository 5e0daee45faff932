"""Where the progress of a transactional topology is stored, and as which bytes.

Below ``transactional.zookeeper.root``, for each transactional id:

===========================  ====================================================  ==========================
node                         value, after the format                               written by
===========================  ====================================================  ==========================
<id>/coordinator/epoch       who raised it; its *version* is the epoch             a coordinator that begins
<id>/coordinator/progress    committed txid, [txid, attempt] that commits or None  the coordinator
<id>/coordinator/meta/<txid> metadata of the transaction                           the coordinator
<id>/user/<partition>        kind of spout, state by txid (partition_states.py)    the emitter of the partition
===========================  ====================================================  ==========================

Every write but that of the epoch itself is one store transaction with a check of the epoch: so whoever acts for a
coordinator that another has replaced changes nothing. A value is ``[format, …]`` in msgpack (tupletree._wire.codec).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tupletree._wire.codec import decode_plain, decode_value, encode_value
from tupletree.attempt import TransactionAttempt
from tupletree.errors import InternalError, ProtocolError, UnregisteredTypeError, UsageError
from tupletree.transactional.store import Check

FORMAT = 1
"""Of everything that is stored here. Raised when an older version could not read it, or would read it wrongly."""

_LAST_CHARACTER = "\uffef"  # ZooKeeper takes none beyond


def check_id(transactional_id: str) -> None:
    """Refuse what cannot be the name of a node, with a UsageError."""
    if not isinstance(transactional_id, str) or transactional_id in {"", ".", "..", "zookeeper"}:
        raise UsageError(
            f"a transactional id cannot be {transactional_id!r}: choose a name for the topology's progress"
        )
    for character in transactional_id:
        if character == "/" or not character.isprintable() or character > _LAST_CHARACTER:
            raise UsageError(f"transactional id {transactional_id!r} contains {character!r}, which no id may")


def topology_path(transactional_id: str) -> str:
    """Above everything of one id."""
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
    """Put first into every transaction that is written for an attempt: it fails if its coordinator was replaced."""
    return Check(epoch_path(transactional_id), attempt.epoch)


def decode_progress(path: str, data: bytes) -> tuple[int, TransactionAttempt | None]:
    """What the coordinator recorded at ``path``: the last committed transaction, and the attempt about to commit."""
    match decode_record(path, data):
        case [int(committed), None]:
            return committed, None
        case [int(committed), [int(txid), int(attempt)]]:
            return committed, TransactionAttempt(txid, attempt)
    raise InternalError(f"{path} holds something else than the progress of a coordinator")


def encode_stored(path: str, *values: Any) -> bytes:
    """What is stored at ``path``.

    Raises UnregisteredTypeError, naming the path, for a value that no codec carries.
    """
    try:
        return encode_value([FORMAT, *values])
    except UnregisteredTypeError as error:
        raise UnregisteredTypeError(f"what is to be stored at {path} cannot be written: {error}") from None


def decode_stored(path: str, data: bytes) -> list[Any]:
    """The values that ``encode_stored`` was given.

    Raises UsageError if a newer version wrote them, and InternalError if nobody did; both name the path.
    """
    return _decoded(path, data, decode_value)


def decode_record(path: str, data: bytes) -> list[Any]:
    """The same of a node that holds nothing but numbers and names, and that nimbus and commands read, too.

    No user's value is built. Errors as of ``decode_stored``.
    """
    return _decoded(path, data, decode_plain)


def decode_owner(path: str, data: bytes) -> str:
    """Who raised the epoch that is stored at ``path``. Errors as of ``decode_stored``."""
    match decode_record(path, data):
        case [str(owner)]:
            return owner
    raise InternalError(f"{path} holds something else than the name of who raised the epoch")


def _decoded(path: str, data: bytes, decode: Callable[[bytes], Any]) -> list[Any]:
    # The format is the first item of a short list, a number of one byte. It is looked at before the rest is decoded:
    # a newer version may store what this one cannot decode.
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
