"""ParquetHistory: values per key that a table or state of a program begins with, and where its sources go on.

Each task of the component reads the dataset and keeps the keys that a fields grouping sends to it. What it has read is
in its state like any change, and is saved with the first checkpoint. Until then, whatever dies, it is read again; the
dataset is that of the time when the program was made.
"""

from __future__ import annotations

import glob
import logging
import operator
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tupletree._log import event
from tupletree._sinks.batch_folders import batch_folder, batch_note, committed_batches
from tupletree._wire.codec import decode_value, encode_value
from tupletree._wire.value_hash import hash_values
from tupletree._wire.value_types import register
from tupletree.component import TopologyContext
from tupletree.connectors.arguments import checked_names
from tupletree.errors import FailedException, UsageError
from tupletree.keyed.progress import PLAIN, is_tuple_key
from tupletree.streams.layout import KEY, record_of
from tupletree.tuples import record_fields

if TYPE_CHECKING:
    from tupletree.state.contract import KeyValueState

log = logging.getLogger(__name__)

Merge = Callable[[Any, Any], Any]
"""Returns one value for two of one key, the earlier one first."""

_MISSING: Final = object()


class ParquetHistory:
    """Values per key in Parquet files, and the positions of a log up to which the values count.

        history = ParquetHistory("/data/clicks", key="user", value="count")
        clicks = builder.source(KafkaSpout("broker:9092", "clicks", Json(Click), start=history.positions))
        clicks.key_by(lambda click: click.user).count(history=history)

    ``path``: a Parquet file, or a directory of such files: one that a pipeline writes with ParquetDirectory, or that
    any DataFrame was written to. All workers must see it, and so must the machine that makes the program. Names that
    begin with ``_`` or ``.`` are left out.

    ``key``: the column of the key, or several for a key that is a tuple. ``value``: the column of the value; a list of
    columns for a value that is a tuple; or a NamedTuple or dataclass whose fields are the columns.

    ``positions``: the position after the last message of each partition that the values count, as in
    ``{"clicks/0": 5000}``. None: those that the pipeline has noted (KafkaTopics), or else none. A pipeline notes none
    for a partition of which it has read no message; name it here if the pipeline left out messages before its start.

    The history is that of this moment: files and transactions that come later are not read, and the files must stay
    until the first checkpoint of the program is committed. A pipeline's transactions must all be there, from the first.

    Rows of one key are joined in the order of transactions, or else of the names of files: as the table joins partial
    values where it does so (count, sum, reduce, aggregate with ``merge``). Of ``latest``, ``update_state`` and
    ``join_table`` the last row counts. An aggregation without ``merge`` takes one row for each key.

    Attributes:
        positions: see above.

    Raises UsageError for arguments that cannot be right, and a directory without Parquet files.
    """

    def __init__(
        self,
        path: str | Path,
        key: str | Sequence[str],
        value: str | Sequence[str] | type,
        *,
        positions: Mapping[str, int] | None = None,
    ) -> None:
        from tupletree.connectors.file_ranges import absolute

        self.path = absolute("ParquetHistory", path, "path")
        self._keys = _names("key", key)
        self._record = record_of(value) if isinstance(value, type) else None
        if self._record is not None:
            register(self._record)  # so that its objects are stored in states
        self._values = _names("value", value) if self._record is None else list(record_fields(self._record))
        self._has_key_tuple, self._has_value_tuple = not isinstance(key, str), not isinstance(value, str)
        try:
            noted, self._files = _dataset(self.path)
        except OSError as error:
            raise UsageError(f"ParquetHistory: {self.path} cannot be read: {error}") from error
        self.positions = noted if positions is None else dict(positions)
        self.id = uuid.uuid4().hex

    def __repr__(self) -> str:
        return f"<ParquetHistory {self.path!r}>"

    def load(
        self,
        state: KeyValueState[Any, Any],
        context: TopologyContext,
        merge: Merge | None,
        entry: Callable[[Any, Any], tuple[Any, Any]] = lambda key, value: (key, value),
    ) -> None:
        """Put what the task has of the history into a state that no checkpoint has been committed of.

        ``merge``: joins two rows of one key; None: a second row is refused. ``entry``: returns the key and the value of
        the state for those of the history.

        Raises:
            UsageError: a file, a column or a value is not as expected; or the topology has taken checkpoints without
                this state, so that its sources have gone on.
        """
        if state.committed is not None:
            return
        if state.topology_checkpoint:
            raise UsageError(
                f"component {context.component_id!r} has no state, and the sources have gone on to checkpoint "
                f"{state.topology_checkpoint}, so its history cannot be joined with what follows: give the component "
                f"its states back, or submit the topology under another name"
            )
        for key, value in _share(self, context, merge).items():
            state.put(*entry(key, decode_value(value)))

    def rows(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values, in order. Raises UsageError for a file, column or key that is not as expected."""
        from tupletree.connectors.parquet import ParquetLog

        columns = list(dict.fromkeys([*self._keys, *self._values]))
        log = ParquetLog(self.path, columns)
        key_of = _picker(columns, self._keys, tuple if self._has_key_tuple else None)
        value_of = _picker(columns, self._values, self._make if self._has_value_tuple else None)
        for file in self._files:
            try:
                for records in log.read(file, 0, log.bounds(file).end):
                    for record in records:
                        key = key_of(record.data)
                        if type(key) not in PLAIN and not is_tuple_key(key):
                            raise UsageError(
                                f"file {log.path(file)}, row {record.position:,}: the key is {key!r}; a str, bytes, an "
                                f"int or a tuple of these was expected"
                            )
                        yield key, value_of(record.data)
            except FailedException as error:
                raise UsageError(f"{self!r}: {error}") from error

    def _make(self, values: Sequence[Any]) -> Any:
        return tuple(values) if self._record is None else self._record(*values)


_shares: dict[tuple[str, str, int], dict[Any, bytes]] = {}
"""What tasks of this process have read, by history, component and index, until it is in a committed checkpoint."""


def _share(history: ParquetHistory, context: TopologyContext, merge: Merge | None) -> dict[Any, bytes]:
    """Return the encoded values of a task's keys. They are kept: a rollback asks for them again.

    They are encoded, since a function of the user may change a value in place.
    """
    place = history.id, context.component_id, context.task_index
    if place not in _shares:
        event(log, "history.loading", path=history.path, component=context.component_id, task=context.task_id)
        tasks = len(context.component_tasks(context.component_id))
        found: dict[Any, Any] = {}
        for key, value in history.rows():
            if tasks > 1 and hash_values([key], context.component_id, [KEY]) % tasks != context.task_index:
                continue
            earlier = found.get(key, _MISSING)
            if earlier is _MISSING:
                found[key] = value
            elif merge is not None:
                found[key] = merge(earlier, value)
            else:
                raise UsageError(
                    f"{history!r} has two rows of key {key!r}, and the aggregation has no merge: one row for each key "
                    f"was expected"
                )
        _shares[place] = {key: encode_value(value) for key, value in found.items()}
        event(log, "history.loaded", component=context.component_id, task=context.task_id, keys=len(found))
    return _shares[place]


def forget_share(history: ParquetHistory, context: TopologyContext) -> None:
    """Free what a task has read, as it is in a committed checkpoint."""
    _shares.pop((history.id, context.component_id, context.task_index), None)


def _dataset(path: str) -> tuple[dict[str, int], list[str]]:
    """Return the noted positions and the names of the files of a directory. Raises UsageError, and OSError."""
    from tupletree.connectors.parquet import data_files

    positions: dict[str, int] = {}
    files: list[str] = []
    is_file = os.path.isfile(path)
    txids = [] if is_file else sorted(committed_batches(path))
    if txids != list(range(1, len(txids) + 1)):
        missing = min(set(range(1, txids[-1])) - set(txids))
        raise UsageError(f"ParquetHistory: transaction {missing} is gone from {path}; all from the first were expected")
    for txid in txids:
        folder = batch_folder(path, txid)
        positions.update(batch_note(folder)["positions"])
        files += [os.path.relpath(os.path.join(folder, name), path) for name in data_files(folder)]
    if not txids:
        files = data_files(path if is_file else os.path.join(glob.escape(path), "**", "*.parquet"))
    if not files:
        raise UsageError(f"ParquetHistory: {path} has no Parquet files")
    return positions, files


def _picker(
    columns: Sequence[str], names: Sequence[str], make: Callable[[Sequence[Any]], Any] | None
) -> Callable[[Sequence[Any]], Any]:
    """Return a function that takes a key or value out of a row: one column as it is, or ``make`` of several."""
    at = [columns.index(name) for name in names]
    if make is None:
        return operator.itemgetter(at[0])
    return lambda row: make([row[index] for index in at])


def _names(argument: str, given: str | Sequence[str] | type) -> list[str]:
    if isinstance(given, type):
        raise UsageError(f"ParquetHistory: {argument} is {given.__name__}; a NamedTuple or dataclass was expected")
    return checked_names("ParquetHistory", argument, [given] if isinstance(given, str) else given)
