"""Commits to Redis: rows that were staged are merged into their hashes by one script, together with a note.

tupletree/_sinks/redis_script.py has the script, and the keys that it uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tupletree._sinks.redis_script import MERGE
from tupletree._sinks.redis_values import Column
from tupletree._sinks.sql_rules import Writer
from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError

STAGED_EXPIRES_S = 24 * 3600
"""Time after which staged rows expire if nobody commits them."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Staged rows: their columns, and the keys with their numbers of parts."""

    columns: Sequence[Column]
    keys: Sequence[tuple[str, int]]


def stage(client: Any, index: str, name: str, chunks: Iterable[bytes]) -> int:
    """Store chunks of rows (``redis_values.packed``) under a name that is added to an index. Return their number."""
    parts = 0
    for chunk in chunks:
        steps = client.pipeline(transaction=True)
        steps.sadd(index, name).expire(index, STAGED_EXPIRES_S)
        steps.hset(name, str(parts), chunk).expire(name, STAGED_EXPIRES_S).execute()
        parts += 1
    return parts


def merge(
    client: Any, sink: str, writer: Writer, attempt: TransactionAttempt, prefix: str, index: str, staged: Staged
) -> None:
    """Merge staged rows and write the note of their attempt, unless the note says that they are merged.

    ``sink``: its text for errors. ``writer``: its note is the key of a hash, its undo that of a list.

    Raises:
        StaleAttemptError: a later transaction or a newer attempt was merged.
        UsageError: a hash cannot take a row, or the prefix is another writer's.
        UnavailableError: staged rows are gone: stage them again.
    """
    keys = [writer.note, writer.undo, index, *dict(staged.keys)]
    arguments: list[str | int] = [writer.id, *attempt, int(writer.is_opaque), prefix, len(staged.columns)]
    for column in staged.columns:
        arguments += column
    arguments += [parts for _, parts in staged.keys]
    word, *details = client.register_script(MERGE)(keys=keys, args=arguments)
    match word.decode(), *(detail.decode(errors="replace") for detail in details):
        case ("done",):
            return
        case "stale", txid, number:
            mark = TransactionAttempt(int(txid), int(number))
            raise StaleAttemptError(
                f"{sink}: {attempt} is over, since {mark} has been written. If this persists, another program writes"
                f" with the id {writer.id!r}, or the progress kept for that id was deleted: give the sink a new prefix"
            )
        case "another", owner:
            check_owner(sink, owner.encode(), writer.id)
        case ("unmarked",):
            raise UsageError(
                f"{sink}: {attempt} replays a batch that was committed while the source was not opaque, and the"
                " source is opaque now: choose a new prefix"
            )
        case "missing", name:
            raise UnavailableError(f"{sink}: the rows that {attempt} staged as {name!r} are gone")
        case _, name, problem:
            raise UsageError(f"{sink}: {name!r} cannot take a row of {attempt}: {problem}")


def check_owner(sink: str, owner: bytes, id: str) -> None:
    """Raise UsageError if the prefix belongs to another pipeline."""
    if owner != id.encode():
        raise UsageError(
            f"{sink} belongs to the pipeline {owner.decode(errors='replace')!r}, not {id!r}: give it another prefix"
        )
