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

from tupletree._stores.node_encoding import decode_record
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


def decode_progress(path: str, data: bytes) -> tuple[int, TransactionAttempt | None]:
    """Decode the progress stored at ``path``: the last committed transaction, and the attempt about to commit."""
    match decode_record(path, data):
        case [int(committed), None]:
            return committed, None
        case [int(committed), [int(txid), int(attempt)]]:
            return committed, TransactionAttempt(txid, attempt)
    raise InternalError(f"{path} does not hold the progress of a coordinator")
