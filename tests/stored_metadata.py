"""The metadata of one transaction, stored as a coordinator does that begins no other transaction with it."""

from __future__ import annotations

from typing import Any

from tupletree.transactional.progress import Progress


def store_metadata(progress: Progress, txid: int, metadata: Any) -> Any:
    """Store the metadata of a transaction unless there is some, and return what is stored."""
    progress.refresh()
    if not progress.metadata.has(txid):
        progress.plan_metadata(txid, metadata)
        progress.store_metadata()
    return progress.metadata.get(txid)
