"""Pickles of user code that keep the names of its files, so that a traceback in a worker's log says where it came from.

Code that is sent by value has the name of its file in each code object. Since version 3.1.3 cloudpickle replaces it by
``<dynamic-code>``, so that equal code has equal pickles; an error would name neither file nor source line then.
"""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import Any

import cloudpickle

_WITHOUT_FILE = "<dynamic-code>"


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    """What cloudpickle makes of a code object, with the name of its file."""
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return make, tuple(code.co_filename if one == _WITHOUT_FILE else one for one in arguments)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table = ChainMap({CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)


def dump(value: Any, file: io.IOBase) -> None:
    """Pickle a value, and by value what cloudpickle sends so. Raises what the value's own methods do."""
    _Pickler(file).dump(value)


def dumps(value: Any) -> bytes:
    """As ``dump``, to bytes."""
    file = io.BytesIO()
    dump(value, file)
    return file.getvalue()
