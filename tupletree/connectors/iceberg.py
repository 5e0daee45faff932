"""Iceberg tables as a sink."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from tupletree._arrow import pa
from tupletree.connectors.arguments import check
from tupletree.connectors.extras import imported
from tupletree.connectors.lake_sink import LakeSink, OvertakenError, text_of
from tupletree.connectors.typed_rows import Columns
from tupletree.errors import UnavailableError, UsageError

RETRIES: Final = "commit.retry.num-retries"
"""The property of a table by which pyiceberg repeats a commit upon the newest version, whatever note is there."""


class IcebergSink(LakeSink):
    """An Iceberg table. Rows are appended: those of each transaction once, in one commit of the table.

        lake = {"type": "rest", "uri": "http://catalog.example.com:8181", "warehouse": "s3://lake"}
        IcebergSink(lake, "shop.sales", {"shop": "string", "amount": "bigint"})

    A missing table and its namespace are created by the first commit. An existing table is used as it is, with its
    partitions; it needs the columns, with the same or wider types. Its other columns become NULL. NULL is refused in
    place of a list of structs.

    The note of an owner is a property of the table, ``tupletree.<owner>``. So a note outlives the snapshots, and also a
    rollback of the table to an earlier snapshot: transactions that were rolled back are not written again.

    ``catalog``: the name of a catalog in the configuration of pyiceberg, which the workers then need, or a dict of a
    catalog's properties, with a ``name`` if it is not ``default``. ``table``: the namespace and the name.
    ``columns``: the fields and their types (``TypedRows``). ``timeout_s``: how long a commit that other writers
    overtake is repeated; calls of the catalog have the timeouts of its properties.

    Refuses opaque transactions. Raises UsageError for a wrong argument, and if the package pyiceberg is missing.
    """

    title: ClassVar[str] = "Iceberg"

    def __init__(
        self, catalog: str | Mapping[str, str], table: str, columns: Columns, *, timeout_s: float = 30.0
    ) -> None:
        imported("pyiceberg", "iceberg")
        is_table = isinstance(table, str) and all(table.split(".")) and "." in table
        check("IcebergSink", "table", table, is_table, "a namespace and a name, such as 'shop.sales',")
        is_dict = isinstance(catalog, Mapping) and all(
            isinstance(part, str) for item in catalog.items() for part in item
        )
        expected = "a name or a dict of properties, such as {'type': 'rest', 'uri': 'http://catalog:8181'},"
        is_right = (is_dict or isinstance(catalog, str)) and bool(catalog)
        check("IcebergSink", "catalog", catalog, is_right, expected, is_secret=True)
        super().__init__("IcebergSink", table, columns, timeout_s)
        self._typed.schema = pa.schema([_without_null_lists(field) for field in self._typed.schema])
        properties = {"name": catalog} if isinstance(catalog, str) else dict(catalog)
        self._name = properties.pop("name", "default")
        self._properties = properties
        self._catalog: Any = None
        self._loaded: Any = None

    @property
    def target(self) -> str:
        return f"Iceberg table {self._table!r}"

    def load(self) -> None:
        with self._translated():
            if self._loaded is not None:
                self._loaded.refresh()
            else:
                self._catalog = imported("pyiceberg.catalog", "iceberg").load_catalog(self._name, **self._properties)
                self._loaded = self._table_of_catalog()
            # Only in memory. A commit is repeated here, once the note was looked for in the newest version.
            self._loaded.metadata.properties[RETRIES] = "0"

    def noted(self, owner: str) -> int:
        return int(self._loaded.metadata.properties.get(f"tupletree.{owner}", 0))

    def check(self) -> None:
        stored = self._loaded.schema()
        names = {field.name for field in stored.fields}
        for name in self.fields:
            if name not in names:
                raise UsageError(f"{self.target} has no column {name!r}: add it, with the type of the sink's column")
        filled = {field.name for field in self._typed.schema if not field.nullable}
        if missing := {field.name for field in stored.fields if field.required} - filled:
            raise UsageError(
                f"{self.target}: column {min(missing)!r} takes no NULL, and a column of the sink that takes none was "
                f"expected, by a schema of Arrow with nullable=False"
            )
        to_schema = imported("pyiceberg.io.pyarrow", "iceberg").pyarrow_to_schema
        for field in to_schema(self._typed.schema, name_mapping=stored.name_mapping).fields:
            kind = stored.find_type(field.field_id)
            if field.field_type.is_primitive and not _fits(field.field_type, kind):
                raise UsageError(
                    f"{self.target}: column {field.name!r} is of type {kind}, and {field.field_type} was expected, as "
                    f"in the sink's columns"
                )

    def append(self, rows: pa.Table, owner: str, txid: int | None) -> None:
        with self._translated(), self._loaded.transaction() as changes:
            if txid is not None:
                changes.set_properties({f"tupletree.{owner}": str(txid)})
            changes.append(rows)

    def close(self) -> None:
        catalog, self._catalog, self._loaded = self._catalog, None, None
        if hasattr(catalog, "close"):
            with contextlib.suppress(Exception):
                catalog.close()

    def _table_of_catalog(self) -> Any:
        errors = imported("pyiceberg.exceptions", "iceberg")
        try:
            return self._catalog.load_table(self._table)
        except errors.NoSuchTableError:
            self._catalog.create_namespace_if_not_exists(self._table.rpartition(".")[0])
            return self._catalog.create_table_if_not_exists(self._table, self._typed.schema)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        errors = imported("pyiceberg.exceptions", "iceberg")
        refused = (ValueError, errors.ValidationError, errors.BadRequestError, errors.ForbiddenError)
        try:
            yield
        except errors.CommitFailedException as error:
            raise OvertakenError(text_of(error)) from error
        except (*refused, errors.NotInstalledError) as error:
            raise UsageError(f"{self.target}: {text_of(error)}") from error
        except Exception as error:  # of the catalog's client and the storage's, of many kinds
            raise UnavailableError(f"{self.target}: {text_of(error)}") from error


def _fits(given: Any, stored: Any) -> bool:
    """Return true if values of a type of Iceberg can be stored as another type: the same, or a wider one."""
    try:
        if given != stored:
            imported("pyiceberg.schema", "iceberg").promote(given, stored)
    except imported("pyiceberg.exceptions", "iceberg").ResolveError:
        return False
    return True


def _without_null_lists(field: pa.Field) -> pa.Field:
    """Return a field in which lists of structs take no NULL: pyiceberg (0.12) would write an empty list."""
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_without_null_lists(child) for child in kind]))
    if not pa.types.is_list(kind) and not pa.types.is_large_list(kind):
        return field
    item = _without_null_lists(kind.value_field)
    kind = pa.list_(item) if pa.types.is_list(kind) else pa.large_list(item)
    return field.with_type(kind).with_nullable(field.nullable and not pa.types.is_struct(item.type))
