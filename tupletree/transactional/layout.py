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
a replaced coordinator can change the store.
"""

from __future__ import annotations  # pure

from collections.abc import Sequence

from tupletree._stores.node_encoding import decode_record, encode_stored
from tupletree._stores.nodes import Check
from tupletree.attempt import TransactionAttempt
from tupletree.errors import InternalError, UsageError

_LAST_CHARACTER = "\uffef"  # ZooKeeper refuses higher characters


def check_id(transactional_id: str) -> None:
    """Raise UsageError if a transactional id cannot be the name of a node."""
    if not isinstance(transactional_id, str) or transactional_id in {"", ".", "..", "zookeeper"}:
        raise UsageError(
            f"a transactional id cannot be {transactional_id!r}; a text that is not empty, '.', '..' or 'zookeeper' "
            f"was expected"
        )
    for character in transactional_id:
        if character == "/" or not character.isprintable() or character > _LAST_CHARACTER:
            raise UsageError(f"transactional id {transactional_id!r} contains {character!r}, which is not allowed")


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
    """Return the check that begins every write for an attempt. It fails if the attempt's coordinator was replaced."""
    return Check(epoch_path(transactional_id), attempt.epoch)


def encode_progress(path: str, committed: int, committing: Sequence[TransactionAttempt]) -> bytes:
    """Encode the progress to store at ``path``, as ``decode_progress`` decodes it.

    A group of several attempts adds the attempt numbers of the transactions after the first.
    """
    first = list(committing[0]) if committing else None
    following = [[one.attempt for one in committing[1:]]] if len(committing) > 1 else []
    return encode_stored(path, committed, first, *following)


def decode_progress(path: str, data: bytes) -> tuple[int, tuple[TransactionAttempt, ...]]:
    """Decode the progress stored at ``path``: the last committed transaction, and the attempts about to commit."""
    match decode_record(path, data):
        case [int(committed), None]:
            return committed, ()
        case [int(committed), [int(txid), int(attempt)]]:
            return committed, (TransactionAttempt(txid, attempt),)
        case [int(committed), [int(txid), int(attempt)], [*following]] if all(type(one) is int for one in following):
            numbers = (attempt, *following)
            return committed, tuple(TransactionAttempt(txid + index, number) for index, number in enumerate(numbers))
    raise InternalError(f"{path} does not hold the progress of a coordinator")
