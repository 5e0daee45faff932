"""Files of a savepoint, in a directory or at an address of a store such as ``s3://bucket/savepoints/one``.

Addresses are those of PyArrow's file systems: s3, gs, abfs, hdfs, file. Rows are written as Parquet:

    task        int32    the index of the task
    key, value  binary   encoded, as the task stores them
    key_json, value_json string   the same, for people and programs: the plain form of docs/rest.md
"""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from tupletree._extras import PYARROW, imported
from tupletree._savepoints.manifest import ENCODED, FILE, Manifest, Part, decoded
from tupletree._savepoints.rows import Row
from tupletree._sinks.durable_files import sync
from tupletree._wire.codec import encode_value
from tupletree._wire.plain_form import shown_form
from tupletree.errors import TupletreeError, UnavailableError, UsageError
from tupletree.keyed.progress import entry_of
from tupletree.state.value_buffer import check_key

BATCH_ROWS: Final = 50_000
_USER: Final = "a savepoint"


def pyarrow(module: str = "pyarrow") -> Any:
    """Return PyArrow, or a module of it. Raises UsageError with the command that installs it."""
    return imported(module, PYARROW, _USER)


class Place:
    """A directory for one savepoint. ``address``: a path, or an address with a scheme. Raises UsageError."""

    def __init__(self, address: str) -> None:
        fs = pyarrow("pyarrow.fs")
        self.address = address.rstrip("/") or address
        try:
            if "://" in address:
                self._fs, path = fs.FileSystem.from_uri(address)
            else:
                self._fs, path = fs.LocalFileSystem(), address
        except Exception as error:  # of many types: an unknown scheme, a store that this PyArrow was built without
            raise UsageError(f"{address} cannot be used for a savepoint: {error}") from error
        self._path = path.rstrip("/") or path
        self._is_local = isinstance(self._fs, fs.LocalFileSystem)
        self._kind = fs.FileType
        self._selector = fs.FileSelector

    def has_manifest(self) -> bool:
        """True if there is a savepoint."""
        with self._errors():
            return bool(self._fs.get_file_info(self._of(FILE)).type == self._kind.File)

    def read_manifest(self) -> Manifest:
        """Return the manifest. Raises UsageError if there is none, or it is not one."""
        if not self.has_manifest():
            raise UsageError(f"there is no savepoint at {self.address}: it has no {FILE}")
        with self._errors(), self._fs.open_input_stream(self._of(FILE)) as file:
            data = file.read()
        try:
            return decoded(data.decode(), self.address)
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.address}: {FILE} is not a text in UTF-8: {error}") from None

    def check_free(self) -> None:
        """Raise UsageError if there is a savepoint."""
        if self.has_manifest():
            raise self._taken()

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest, which makes the other files a savepoint. Raises UsageError if there is one.

        In a directory of this machine the savepoint then survives a crash of the machine.
        Of two that are written at the same moment, a directory of this machine keeps the first, a store the last.
        """
        self.check_free()
        data = manifest.encoded().encode()
        with self._errors():
            if self._is_local:
                sync(self._path)  # the files that the manifest names are there before it is
                try:
                    _write_new(self._of(FILE), data)
                except FileExistsError:
                    raise self._taken() from None
                sync(self._path)
                return
            with self._fs.open_output_stream(self._of(FILE)) as file:
                file.write(data)

    def create(self) -> None:
        """Create the directory, if there is none."""
        with self._errors():
            self._fs.create_dir(self._path, recursive=True)
            if self._is_local:
                sync(posixpath.dirname(self._path) or ".")

    @contextlib.contextmanager
    def writer(self, name: str) -> Iterator[ParquetRows]:
        """Yield a writer of rows to a file, whose name no other attempt has."""
        with self._errors(), self._fs.open_output_stream(self._of(name)) as file:
            rows = ParquetRows(file)
            try:
                yield rows
            finally:
                rows.close()
        if self._is_local:
            with self._errors():
                sync(self._of(name))

    def read_rows(self, id: str, part: Part, state_form: str) -> Iterator[Row]:
        """Yield the rows of a component, encoded. ``state_form``: that of the program.

        Raises UsageError if there are no files, or they do not have the columns or values of a savepoint.
        """
        for path in self._files(part.files):
            where = f"{self.address}: component '{id}', {posixpath.basename(path)}"
            with self._errors(), self._fs.open_input_file(path) as file:
                read = encoded_rows if part.rows == ENCODED else _plain_rows
                yield from read(parquet_file(file, where), where, state_form)

    def remove(self, names: Iterable[str], id: str) -> None:
        """Remove files that an attempt has left, as far as possible. ``id``: that of its manifest.

        The manifest is first, so that none names files that are gone. That of another attempt stays.
        """
        with contextlib.suppress(Exception):
            if self.has_manifest() and self.read_manifest().id == id:
                self._fs.delete_file(self._of(FILE))
            for name in names:
                with contextlib.suppress(Exception):
                    self._fs.delete_file(self._of(name))

    def _files(self, name: str) -> list[str]:
        path = self._of(name)
        with self._errors():
            if self._fs.get_file_info(path).type == self._kind.File:
                return [path]
            found = self._fs.get_file_info(self._selector(path, allow_not_found=True, recursive=True))
        files = sorted(
            one.path
            for one in found
            if one.type == self._kind.File and not posixpath.basename(one.path).startswith(("_", "."))
        )
        if not files:
            raise UsageError(f"{self.address}: there is no file {name}")
        return files

    def _taken(self) -> UsageError:
        return UsageError(f"there is a savepoint at {self.address} already: name another directory with --to")

    def _of(self, name: str) -> str:
        return f"{self._path}/{name}"

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except TupletreeError:
            raise
        except OSError as error:
            raise UnavailableError(f"{self.address}: {error}") from error
        except pyarrow("pyarrow.lib").ArrowInvalid as error:  # neither a path nor an address, such as s3:/bucket
            raise UsageError(f"{self.address} cannot be used for a savepoint: {error}") from error


def _write_new(path: str, data: bytes) -> None:
    """Write a file of this machine, whole or not at all. Raises FileExistsError if there is one."""
    with open(path, "xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(path)
            raise


class ParquetRows:
    """Writes encoded rows as Parquet, some ten thousand at a time."""

    def __init__(self, file: Any) -> None:
        pa = pyarrow()
        self._schema = pa.schema(
            [
                ("task", pa.int32()),
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("key_json", pa.string()),
                ("value_json", pa.string()),
            ]
        )
        self._table = pa.Table
        self._writer = pyarrow("pyarrow.parquet").ParquetWriter(file, self._schema)
        self.entries = 0

    def write(self, rows: Sequence[Row]) -> None:
        """Write some rows."""
        if not rows:
            return
        tasks, keys, values = zip(*rows, strict=True)
        columns = [tasks, keys, values, [*map(json_of, keys)], [*map(json_of, values)]]
        self._writer.write_table(self._table.from_arrays(
            [pyarrow().array(column, field.type) for column, field in zip(columns, self._schema, strict=True)],
            schema=self._schema,
        ))  # fmt: skip
        self.entries += len(rows)

    def close(self) -> None:
        """Write what a Parquet file ends with."""
        self._writer.close()


_json: Final = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps would make an encoder for each value


def json_of(encoded: bytes) -> str:
    """Return the plain form of an encoded value as JSON."""
    text = _json(shown_form(encoded))
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def parquet_file(file: Any, where: str) -> Any:
    """Return a Parquet file. Raises UsageError if it is none."""
    try:
        return pyarrow("pyarrow.parquet").ParquetFile(file)
    except ValueError as error:  # ArrowInvalid
        raise UsageError(f"{where} is not a Parquet file: {error}") from error


def _columns(file: Any, where: str, names: Sequence[str]) -> Iterator[list[Any]]:
    missing = [name for name in names if name not in file.schema_arrow.names]
    if missing:
        raise UsageError(f"{where} has no column {missing[0]}; it has {', '.join(file.schema_arrow.names)}")
    if not file.num_row_groups:  # pyarrow 18 raises OSError
        return
    for batch in file.iter_batches(BATCH_ROWS, columns=list(names)):
        yield [batch.column(batch.schema.get_field_index(name)) for name in names]


def encoded_rows(file: Any, where: str, state_form: str) -> Iterator[Row]:
    """Yield the rows of a Parquet file that ParquetRows has written. Raises UsageError if it has no such columns."""
    for columns in _columns(file, where, ["task", "key", "value"]):
        for task, key, value in zip(*(column.to_pylist() for column in columns), strict=True):
            if (task is not None and type(task) is not int) or type(key) is not bytes or type(value) is not bytes:
                raise UsageError(f"{where}: the columns task, key and value are numbers, bytes and bytes")
            yield task, key, value


def _plain_rows(file: Any, where: str, state_form: str) -> Iterator[Row]:
    for keys, values in _columns(file, where, ["key", "value"]):
        for key, value in zip(_python(keys), _python(values), strict=True):
            made = tuple(key.values()) if type(key) is dict else tuple(key) if type(key) is list else key
            try:
                check_key("", made)
                entry = entry_of(made) if state_form == "KeyedProcess" else made
                yield None, encode_value(entry), encode_value(value)
            except TupletreeError as error:
                reason = str(error).removeprefix("state '': ")
                raise UsageError(f"{where}: the entry of key {str(key)[:100]} cannot be stored: {reason}") from None


def _python(column: Any) -> Iterator[Any]:
    """Yield the values of a column; those of a map are dicts."""
    is_nested = pyarrow("pyarrow.types").is_nested(column.type)
    return (_with_dicts(one, column.type) if is_nested else one for one in column.to_pylist())


def _with_dicts(value: Any, type: Any) -> Any:
    """Return a value of an Arrow type with dicts for maps, which are lists of pairs until pyarrow 19 can do this."""
    types = pyarrow("pyarrow.types")
    if value is None or not types.is_nested(type):
        return value
    if types.is_map(type):
        return {_with_dicts(key, type.key_type): _with_dicts(one, type.item_type) for key, one in value}
    if types.is_struct(type):
        return {field.name: _with_dicts(value[field.name], field.type) for field in type}
    return [_with_dicts(one, type.value_type) for one in value]


def unique(rows: Iterable[Row], where: str) -> Iterator[Row]:
    """Yield rows. Raises UsageError, which begins with ``where``, if two have the same key."""
    seen: set[bytes] = set()
    for row in rows:
        key = row[1]
        if key in seen:
            raise UsageError(f"{where} has two rows with key {json_of(key)[:100]}: join them to one")
        seen.add(key)
        yield row
