"""Delta tables as a sink."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from tupletree._arrow import pa
from tupletree.connectors.arguments import check, check_headers
from tupletree.connectors.extras import imported
from tupletree.connectors.lake_sink import LakeSink, OvertakenError, text_of
from tupletree.connectors.typed_rows import Columns
from tupletree.errors import UnavailableError, UsageError


class DeltaSink(LakeSink):
    """A Delta table. Rows are appended: those of each transaction once, in one commit of the table.

        DeltaSink("/lake/sales", {"shop": "string", "amount": "bigint"})
        DeltaSink("s3://lake/sales", Sale, storage_options={"AWS_REGION": "eu-central-1"})

    A missing table is created by the first commit. An existing table is used as it is, with its partitions and
    constraints; it needs the columns, with the same types. Its other columns become NULL.

    The note of an owner is an application transaction of Delta, ``tupletree/<owner>``. Checkpoints of the table keep
    it. A table with ``delta.setTransactionRetentionDuration`` forgets notes older than that; a transaction that is
    repeated later is written twice.

    ``uri``: a directory, or a URI that deltalake knows, without a password. ``columns``: the fields and their types
    (``TypedRows``). ``storage_options``: passed to deltalake. ``timeout_s``: how long a commit that other writers
    overtake is repeated; calls of the storage have the timeouts of ``storage_options``.

    Refuses opaque transactions. Raises UsageError for a wrong argument, and if the package deltalake is missing.
    """

    title: ClassVar[str] = "Delta"

    def __init__(
        self,
        uri: str | os.PathLike[str],
        columns: Columns,
        *,
        storage_options: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        is_path = isinstance(uri, str | os.PathLike) and bool(os.fspath(uri))
        check("DeltaSink", "uri", uri, is_path, "a directory or a URI", is_secret=True)
        check_headers("DeltaSink", "storage_options", storage_options)
        self._uri = os.fspath(uri)
        if "://" not in self._uri:
            self._uri = os.path.abspath(self._uri)
        super().__init__("DeltaSink", self._uri, columns, timeout_s)
        self._options = dict(storage_options or {})
        delta = imported("deltalake", "delta")
        self._of_delta = pa.schema(delta.Schema.from_arrow(self._typed.schema).to_arrow())
        self._loaded: Any = None

    @property
    def target(self) -> str:
        return f"Delta table {self._uri!r}"

    def load(self) -> None:
        delta = imported("deltalake", "delta")
        with self._translated():
            if self._loaded is not None:
                self._loaded.update_incremental()
                return
            if not delta.DeltaTable.is_deltatable(self._uri, self._options):
                delta.DeltaTable.create(self._uri, self._typed.schema, mode="ignore", storage_options=self._options)
            loaded = delta.DeltaTable(self._uri, storage_options=self._options)
        self._loaded = loaded

    def noted(self, owner: str) -> int:
        with self._translated():
            return self._loaded.transaction_version(f"tupletree/{owner}") or 0

    def check(self) -> None:
        stored = self._stored()
        for field in self._of_delta:
            if field.name not in stored.names:
                raise UsageError(f"{self.target} has no column {field.name!r}: add one of type {field.type}")
            if (kind := stored.field(field.name).type) != field.type:
                raise UsageError(
                    f"{self.target}: column {field.name!r} is of type {kind}, and {field.type} was expected, as in the "
                    f"sink's columns"
                )
        for field in stored:
            if not field.nullable and field.name not in self.fields:
                raise UsageError(f"{self.target}: column {field.name!r} takes no NULL, and the sink has no such column")

    def append(self, rows: pa.Table, owner: str, txid: int | None) -> None:
        delta = imported("deltalake", "delta")
        notes = None if txid is None else [delta.Transaction(f"tupletree/{owner}", txid)]
        with self._translated():
            delta.write_deltalake(
                self._loaded,
                self._fitted(rows),
                mode="append",
                commit_properties=delta.CommitProperties(app_transactions=notes),
            )

    def close(self) -> None:
        self._loaded = None

    def _stored(self) -> pa.Schema:
        with self._translated():
            return pa.schema(self._loaded.schema().to_arrow())

    def _fitted(self, rows: pa.Table) -> pa.Table:
        """Return rows with all columns of the stored table."""
        stored = self._stored()
        arrays = [
            rows.column(field.name).cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(rows.num_rows, field.type)
            for field in stored
        ]
        return pa.Table.from_arrays(arrays, stored.names)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        errors = imported("deltalake.exceptions", "delta")
        try:
            yield
        except errors.CommitFailedError as error:  # also if another life of the owner has written the transaction
            raise OvertakenError(text_of(error)) from error
        except (errors.SchemaMismatchError, errors.DeltaProtocolError) as error:
            raise UsageError(f"{self.target}: {text_of(error)}") from error
        except (errors.DeltaError, OSError) as error:
            is_refused = "Invalid data found" in str(error)  # a constraint, or NULL where the table takes none
            raise (UsageError if is_refused else UnavailableError)(f"{self.target}: {text_of(error)}") from error
