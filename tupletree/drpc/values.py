"""Arguments and results as JSON text, and the text that names a request and its server. Pure."""

from __future__ import annotations  # pure

import json
from typing import Any

from tupletree._limits import is_encodable
from tupletree.errors import UsageError


def encoded(value: Any, what: str) -> str:
    """Return a value as JSON, which can be encoded as UTF-8. Raises UsageError."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text if is_encodable(text) else json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{what} must be a JSON value (text, numbers, lists, mappings, None): {error}") from None


def decoded(text: str | bytes, what: str) -> Any:
    """Return the value of JSON. Raises UsageError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON: {error}") from None


def return_info(place: str, id: str) -> str:
    """Return the text that names a request: the place of its server, and its id."""
    return f"{place}/{id}"


def parsed_return_info(info: Any) -> tuple[str, str]:
    """Return place and id. Raises UsageError if the value is not the return_info of a DRPCSpout."""
    place, slash, id = info.rpartition("/") if isinstance(info, str) else ("", "", "")
    if not slash or not place or not id:
        raise UsageError(
            f"the second value of a tuple for ReturnResults must be the return_info of the DRPCSpout, not {info!r:.100}"
        )
    return place, id
