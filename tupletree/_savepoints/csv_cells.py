"""Keys and values as cells of a CSV file: JSON in the plain form, and a text as it is unless it reads as JSON.

    text  apple      apple              number  5           5
    text  5          "5"                dict    {"n": 1}    {"n": 1}

So a file that a person or a spreadsheet has written says what it seems to say, and what was exported is read as it was.
"""

from __future__ import annotations  # pure

import json
from typing import Any


def cell_of(form: Any) -> str:
    """Return the cell of a plain form."""
    if type(form) is str and not _is_json(form):
        return form
    return json.dumps(form, ensure_ascii=False)


def form_of(cell: str) -> Any:
    """Return the plain form of a cell."""
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
