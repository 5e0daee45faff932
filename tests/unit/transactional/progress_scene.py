"""A coordinator's progress up to some transaction, and steps repeated until a store answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from stored_metadata import store_metadata

from tupletree._stores.nodes import StateStore
from tupletree.attempt import TransactionAttempt, first_attempt
from tupletree.errors import UnavailableError
from tupletree.transactional.progress import Progress

ID = "global-count"
T = TypeVar("T")


def attempt(txid: int, epoch: int = 1, number: int = 0) -> TransactionAttempt:
    return TransactionAttempt(txid, first_attempt(epoch) + number)


def run_to(store: StateStore, committed: int) -> Progress:
    """A coordinator that has recorded so many transactions as committed."""
    progress = Progress.take_over(store, ID, "first")
    for txid in range(progress.committed + 1, committed + 1):
        store_metadata(progress, txid, f"metadata {txid}")
        progress.record(txid - 1, (attempt(txid, progress.epoch),))
    progress.record(committed)
    return progress


def insist(step: Callable[[], T]) -> T:
    """Do a step again until the store answers."""
    while True:
        with suppress(UnavailableError):
            return step()
