"""Pickles of user code that keep file names, so that tracebacks in a worker's log name file and line.

Each code object pickled by value holds its file name. Since version 3.1.3, cloudpickle replaces the file name with
``<dynamic-code>``, so that equal code has equal pickles; tracebacks would then name neither file nor source line.
"""

from __future__ import annotations

import io
import sys
from collections import ChainMap
from types import CodeType
from typing import Any

import cloudpickle

_WITHOUT_FILE = "<dynamic-code>"


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    """Reduce a code object as cloudpickle does, but keep its file name."""
    make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return make, tuple(code.co_filename if one == _WITHOUT_FILE else one for one in arguments)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table = ChainMap({CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)


def goes_by_name(value: Any, module: str, name: str) -> bool:
    """True if a value is to be pickled as module and name, like a function: the reader then imports the module.

    False in ``__main__``, and in modules registered for pickling by value, such as a submitted file.
    """
    if module == "__main__" or getattr(sys.modules.get(module), name, None) is not value:
        return False
    packages = cloudpickle.list_registry_pickle_by_value()
    return not any(f"{module}.".startswith(f"{package}.") for package in packages)


def dump(value: Any, file: io.IOBase) -> None:
    """Pickle a value with cloudpickle. Exceptions from the value's own methods propagate."""
    _Pickler(file).dump(value)


def dumps(value: Any) -> bytes:
    """Pickle a value with ``dump`` and return the bytes."""
    file = io.BytesIO()
    dump(value, file)
    return file.getvalue()
