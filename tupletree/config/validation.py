"""Validation of configurations against the table of keys."""

from __future__ import annotations  # pure

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tupletree import _blobs, _constraints, _limits
from tupletree.config.key import CLASS_PATTERN, KIND_WORDS, Key
from tupletree.config.keys import FAMILIES, FREE_FAMILIES, KEYS
from tupletree.errors import ConfigError

_MORE_CHECKS: Final[Mapping[str, Callable[[object], str | None]]] = {
    "topology.environment": _limits.environment_fault,
    _blobs.BLOB_MAP: _blobs.map_fault,
    _constraints.CONSTRAINTS: _constraints.constraints_fault,
    _constraints.ISOLATION: _constraints.isolation_fault,
    _constraints.POOLS: _constraints.pools_fault,
    "supervisor.rack": _limits.name_fault,
    "supervisor.cgroup.root": _limits.group_fault,
}
"""Functions that return the fault of a value, or None, by key."""


def validate(conf: Mapping[str, Any], source: str = "") -> None:
    """Check every key and value. Raises ConfigError with a message that ends in ``source``, if given."""
    for fault in faults(conf):
        raise ConfigError(fault + source)


def faults(conf: Mapping[str, Any]) -> Iterator[str]:
    """Yield an error message for every key and value that is invalid."""
    return (fault for name, value in conf.items() if (fault := _fault(name, value)))


def validate_component(conf: Mapping[str, Any]) -> None:
    """Check like ``validate``, and refuse keys that cannot be set per component. Raises ConfigError."""
    validate(conf)
    for name in conf:
        key = KEYS.get(name)
        if key is not None and not key.component_level:
            allowed = ", ".join(sorted(other.name for other in KEYS.values() if other.component_level))
            raise ConfigError(
                f"configuration key '{name}' cannot be set for one component; keys that can be set are {allowed}"
            )


def _fault(name: object, value: Any) -> str | None:
    """Return an error message for an invalid setting, or None."""
    if not isinstance(name, str) or not name:
        return f"configuration keys are strings such as 'topology.workers', not {_limits.shown(name)}"
    fault = _limits.value_fault(value)
    if fault:
        return f"configuration key {quoted(name)} {fault}"
    key = KEYS.get(name)
    if key is not None:
        return _value_fault(key, value)
    family = name.partition(".")[0]
    if family not in FAMILIES or family in FREE_FAMILIES:
        fault = _limits.name_fault(name)
        if fault:
            return f"a configuration key {fault}"
        similar = difflib.get_close_matches(name, KEYS, n=1, cutoff=0.9) if family not in FAMILIES else []
        return f"unknown configuration key {quoted(name)}; did you mean '{similar[0]}'?" if similar else None
    return f"unknown configuration key {quoted(name)}; did you mean '{_nearest(name[: _limits.MAX_NAME])}'?"


def quoted(name: object) -> str:
    """Return a key's name as it appears in messages."""
    return f"'{name}'" if _limits.name_fault(name) is None else _limits.shown(name)


def _nearest(name: str) -> str:
    name = name.removeprefix("storm.")
    if name in KEYS:
        return name
    family = name.partition(".")[0]
    kin = [other for other in KEYS if KEYS[other].family == family] or list(KEYS)
    return difflib.get_close_matches(name, kin, n=1, cutoff=0.0)[0]


def _value_fault(key: Key, value: Any) -> str | None:
    if value is None and key.optional:
        return None
    expected = expectation(key)
    wrong = f"configuration key '{key.name}' takes {expected}, not {_limits.shown(value)}"
    if not _is_of_kind(key, value):
        return wrong
    check = _MORE_CHECKS.get(key.name)
    if check is not None and (fault := check(value)):
        return f"configuration key '{key.name}': {fault}"
    if key.name == "topology.autoscale" and (fault := _limits.autoscale_fault(value)):
        return f"configuration key '{key.name}': {fault}"
    numbers = value if key.kind == "ports" else [value] if key.kind in ("int", "number") else []
    in_range = all(
        (key.minimum is None or number >= key.minimum) and (key.maximum is None or number <= key.maximum)
        for number in numbers
    )
    if not in_range or (key.choices and value not in key.choices):
        return wrong
    return None


def _is_of_kind(key: Key, value: Any) -> bool:
    match key.kind:
        case "int":
            return isinstance(value, int) and _is_number(value)
        case "number":
            return _is_number(value)
        case "bool":
            return isinstance(value, bool)
        case "str" | "node":
            return isinstance(value, str) and value != "" and (key.kind == "str" or _limits.path_fault(value) is None)
        case "strings" | "classes":
            pattern = r"(?s).+" if key.kind == "strings" else CLASS_PATTERN
            return _is_list(value, str) and len(value) > 0 and all(re.fullmatch(pattern, one) for one in value)
        case "ports":
            return _is_list(value, int)
        case "map" | "texts" | "amounts":
            return isinstance(value, Mapping) and _is_mapping_of(key.kind, value)
        case "any":
            return True


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _limits.MAX_INT


def _is_mapping_of(kind: str, value: Mapping[Any, Any]) -> bool:
    if kind == "amounts":
        return all(map(_is_amount, value.items()))
    if kind == "texts":
        return _is_list([*value, *value.values()], str) and all(value.values())
    return all(isinstance(name, str) for name in value)


def _is_amount(item: tuple[Any, Any]) -> bool:
    name, amount = item
    return isinstance(name, str) and name != "" and _is_number(amount) and amount > 0


def _is_list(value: Any, of: type) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, of) and not isinstance(v, bool) for v in value)


def expectation(key: Key) -> str:
    """Return what a key takes, with range and unit, as messages and the reference have it."""
    words = KIND_WORDS[key.kind]
    if key.choices:
        words = "one of " + ", ".join(key.choices)
    elif key.minimum is not None and key.maximum is not None:
        words += f" from {key.minimum:g} to {key.maximum:g}"
    elif key.minimum is not None:
        words += f" of at least {key.minimum:g}"
    if key.unit and not key.unit.startswith(("port", "host", "path")):
        words += f" ({key.unit})"
    return words + (" or null" if key.optional else "")
