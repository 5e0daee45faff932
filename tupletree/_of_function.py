"""The base of function components."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from tupletree._pickling import goes_by_name
from tupletree.component import Outputs

Function = Callable[..., Any]


class OfFunction:
    """Base of all function components: construction, calls in unit tests, and pickling.

    Pickled like a function: by module and name where the worker can import the module, and else by value
    (``goes_by_name``). A copy, such as that of ``set_retry``, goes by value, with its attributes.
    """

    def __init__(self, function: Function, outputs: Outputs, setting: Any) -> None:
        self.function = function
        self.outputs = outputs
        self.setting = setting
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function, as in a unit test."""
        return self.function(*arguments)

    def __reduce__(self) -> Any:
        module, name = self.function.__module__, self.function.__qualname__
        if goes_by_name(self, module, name):
            return find, (module, name)
        return type(self), (self.function, self.outputs, self.setting), vars(self)


def find(module: str, name: str) -> Any:
    """Return a copy of the component, so that each task has its own object."""
    found = getattr(importlib.import_module(module), name)
    made = type(found)(found.function, found.outputs, found.setting)
    vars(made).update(vars(found))
    return made
