"""Csv: lines of separated values, for logs and queues whose messages are lines."""

from __future__ import annotations  # pure

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tupletree._csv import csv
from tupletree.connectors.arguments import check, checked_names
from tupletree.connectors.formats import Format, FormatError, utf8
from tupletree.tuples import Tuple


class Csv(Format):
    """A line of values, separated by ``separator`` and quoted with ``"`` where they contain it.

    ``fields``: the names of all values, in their order: ``Csv(["user", "amount"])`` reads texts. A mapping names a
    function that converts each text: ``Csv({"user": str, "amount": float})``.

    A value with a line end is neither written nor read. Raises UsageError for invalid arguments.
    """

    def __init__(self, fields: Sequence[str] | Mapping[str, Callable[[str], Any]], *, separator: str = ",") -> None:
        self.fields = checked_names("Csv", "fields", list(fields) if isinstance(fields, Mapping) else fields)
        is_separator = isinstance(separator, str) and len(separator) == 1 and separator not in '"\r\n'
        check("Csv", "separator", separator, is_separator, "one character other than a quote and a line end")
        self._converters: list[Callable[[str], Any]] = [str] * len(self.fields)
        if isinstance(fields, Mapping):
            for name, convert in fields.items():
                check("Csv", f"fields[{name!r}]", convert, callable(convert), "a function such as float")
            self._converters = list(fields.values())
        self._separator = separator

    def decode(self, data: bytes) -> Sequence[Any]:
        try:
            reader = csv.reader([data.decode(), ""], delimiter=self._separator)
            values = next(reader, [])
        except UnicodeDecodeError as error:
            raise FormatError(f"the line is not UTF-8: {error}") from error
        except csv.Error as error:
            raise FormatError(f"the line is not CSV: {error}") from error
        if reader.line_num > 1:
            raise FormatError("a quote in the line is not closed: a value with a line end is not read")
        if len(values) != len(self.fields):
            raise FormatError(f"the line has {len(values)} values; {', '.join(self.fields)} were expected")
        row = []
        for name, convert, value in zip(self.fields, self._converters, values, strict=True):
            try:
                row.append(convert(value))
            except Exception as error:  # a converter of the user's
                text = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
                raise FormatError(f"the value of {name!r} cannot be read: {text}") from error
        return row

    def encode(self, tup: Tuple) -> bytes:
        line = io.StringIO()
        try:
            values = [tup[name] for name in self.fields]
            csv.writer(line, delimiter=self._separator, lineterminator="").writerow(values)
        except (KeyError, csv.Error) as error:
            raise FormatError(f"the tuple cannot be written as CSV: {error.args[0]}") from error
        text = line.getvalue()
        if "\n" in text or "\r" in text:
            raise FormatError("the tuple cannot be written as CSV: a value contains a line end; one line was expected")
        return utf8(text, "the line")
