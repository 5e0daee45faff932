"""Classes of the user whose objects travel between workers: dataclasses, NamedTuples and Enums marked with ``@value``.

An object travels as the name of its class and the values of its fields (codec.py). The receiver builds objects of
registered classes only. A worker registers them when it loads its components: each component is pickled together with
all marked classes (``carried``), because a task may receive objects of a class that its own code does not mention.
"""

from __future__ import annotations  # pure

import dataclasses
import enum
import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import cloudpickle

from tupletree import _pickling
from tupletree.errors import UsageError
from tupletree.tuples import record_fields

C = TypeVar("C", bound=type)

fields_of: Callable[[Any], tuple[str, ...]] = record_fields

_by_name: dict[str, type] = {}
_names: dict[type, str] = {}


def value(cls: C) -> C:
    """Mark a dataclass, NamedTuple or Enum: its objects may be values of tuples and of states.

        @value
        @dataclass(frozen=True)
        class Money:
            amount: Decimal
            currency: str

    The fields must be of types that travel. An Enum's member travels by its name, a combination of flags by its value.
    A dataclass's ``init=False`` fields do not travel. A class that is changed while a topology runs is a new version of
    the data: objects in flight must fit the receiver's class.

    Raises:
        UsageError: the class is not a dataclass, a NamedTuple or an Enum, or its fields do not make an object.
    """
    if not (isinstance(cls, type) and issubclass(cls, enum.Enum)):
        try:
            fields_of(cls)
        except TypeError:
            name = getattr(cls, "__name__", repr(cls))
            raise UsageError(f"@value marks a dataclass, a NamedTuple or an Enum, but {name} is none of them") from None
        _check_call(cls)
    register(cls)
    return cls


def _check_call(cls: Any) -> None:
    """Check that the class takes its fields, and nothing else, to make an object that has arrived."""
    names = fields_of(cls)
    try:
        inspect.signature(cls).bind(**dict.fromkeys(names))
    except TypeError as error:
        call = f"{cls.__name__}({', '.join(f'{name}=…' for name in names)})"
        raise UsageError(f"@value: an object that arrives is made by {call}, which cannot be called: {error}") from None


def register(cls: type) -> None:
    """Register a class by its module and name. A later class of the same name replaces the class."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    _by_name[name] = cls
    _names[cls] = name


def is_value_type(cls: type) -> bool:
    """True if the class was marked, here or where the topology was made."""
    return cls in _names


def content_of(item: Any) -> list[Any]:
    """Return what travels for an object of a class that is marked with ``tupletree.value``.

    It is a list: the name of the class and the values of the fields, or the name of an Enum's member; the value of a
    combination of flags, which is no member.
    """
    cls = type(item)
    if isinstance(item, enum.Enum):
        return [_names[cls], item.name if item.name in cls.__members__ else item.value]
    return [_names[cls], *(getattr(item, name) for name in fields_of(cls))]


def compared_content(item: Any) -> list[Any]:
    """Return ``content_of`` without the fields that a dataclass leaves out when it compares objects."""
    cls = type(item)
    if isinstance(item, enum.Enum) or not dataclasses.is_dataclass(cls):
        return content_of(item)
    return [_names[cls], *(getattr(item, one.name) for one in dataclasses.fields(cls) if one.init and one.compare)]


def object_of(content: Sequence[Any]) -> Any:
    """Build an object from what ``content_of`` returned. Raises ValueError if its class is not known."""
    name, *values = content
    cls: Any = _by_name.get(name)
    if cls is None:
        raise ValueError(f"class {name} is not known here: mark it with @tupletree.value in the topology's code")
    try:
        if issubclass(cls, enum.Enum):
            return cls[values[0]] if type(values[0]) is str else cls(values[0])
        return cls(**dict(zip(fields_of(cls), values, strict=True)))
    except Exception as error:  # also from user code
        raise ValueError(f"an object of class {name} cannot be made: {type(error).__name__}: {error}") from error


def carried(component: Any, references: Sequence[str | bytes]) -> Any:
    """Return the object to pickle in place of a component, so that its worker knows the marked classes too."""
    return _Carried(component, references) if references else component


class _Carried:
    """A component and the marked classes. Unpickled, it is the component."""

    def __init__(self, component: Any, references: Sequence[str | bytes]) -> None:
        self._component = component
        self._references = references

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _restored, (self._references, self._component)


def class_references() -> list[str | bytes]:
    """Return each marked class: its name if the worker can import its module, otherwise its pickle."""
    found: list[str | bytes] = []
    for name, cls in _by_name.items():
        if _pickling.goes_by_name(cls, cls.__module__, cls.__qualname__):
            found.append(name)
            continue
        try:
            found.append(_pickling.dumps(cls))
        except Exception:  # an object of the class is refused where it is met
            continue
    return found


def _restored(references: Sequence[str | bytes], component: Any) -> Any:
    for reference in references:
        try:
            if isinstance(reference, bytes):
                register(cloudpickle.loads(reference))
            elif reference not in _by_name:
                module, _, name = reference.rpartition(".")
                register(getattr(importlib.import_module(module), name))  # a record of streams is not marked
        except Exception:  # an object of the class is refused where it is met
            continue
    return component
