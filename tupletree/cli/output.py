"""Output of results: JSON for programs, tables for people."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from google.protobuf.descriptor import FieldDescriptor  # its type stubs know two of them, hence Any below
from google.protobuf.message import Message

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_PIPE_WIDTH: Final = 200


def print_json(value: Any) -> None:
    """Print one JSON document on one line. Control characters that JSON allows and terminals obey are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    click.echo(re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text))


def message_dict(message: Message) -> dict[str, Any]:
    """A protobuf message as plain values: enums by their short lower-case name, defaults included, bytes left out."""
    result: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_BYTES:
            continue
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            result[field.name] = {key: message_dict(v) if isinstance(v, Message) else v for key, v in value.items()}
        elif field.has_presence and not message.HasField(field.name):
            result[field.name] = None
        elif isinstance(value, Message):
            result[field.name] = message_dict(value)
        elif isinstance(value, str | int | float | bool):
            result[field.name] = _scalar(field, value)
        else:
            result[field.name] = [message_dict(v) if isinstance(v, Message) else _scalar(field, v) for v in value]
    return result


def enum_name(field: Any, number: int) -> str:
    """``"active"`` for TOPOLOGY_STATUS_ACTIVE."""
    values = field.enum_type.values_by_number
    prefix = values[0].name.removesuffix("UNSPECIFIED")
    return values[number].name.removeprefix(prefix).lower() if number in values else str(number)


def _scalar(field: Any, value: Any) -> Any:
    return enum_name(field, value) if field.type == FieldDescriptor.TYPE_ENUM else value


def console() -> Console:
    """Return a console for standard output: as wide as the terminal, or wide if there is no terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False, soft_wrap=False)


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> Table:
    """Return a table. A heading that ends with ``>`` aligns its column right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    result = Table(title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        result.add_column(heading.removesuffix(">"), justify="right" if heading.endswith(">") else "left")
    for row in rows:
        result.add_row(*(Text(escaped(str(cell))) for cell in row))
    return result


def escaped(text: str) -> str:
    """Return a text whose characters that would control a terminal are escaped. Line breaks stay."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    console().print(table(headings, rows, title))


def duration(seconds: float) -> str:
    """``45s``, ``3m 05s``, ``2h 10m``, ``4d 03h``."""
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days}d {hours:02}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {secs:02}s" if minutes else f"{secs}s"


def count(number: float) -> str:
    """A number with separators: ``1,234,567``."""
    return f"{number:,.0f}"


def millis(milliseconds: float | None) -> str:
    """``0.123`` or ``12.3``; ``-`` where nothing was measured."""
    if milliseconds is None:
        return "-"
    return f"{milliseconds:.3f}" if milliseconds < 10 else f"{milliseconds:,.1f}"


def clock(unix_s: float) -> str:
    """Local time of day and date."""
    from datetime import datetime

    return datetime.fromtimestamp(unix_s).astimezone().isoformat(sep=" ", timespec="seconds")
