"""Configuration: layers, validation, and the part that a component receives.

Later layers win::

    defaults < tupletree.yaml < TUPLETREE_* variables < -c key=value < topology conf < component conf
    \\_______________________ load() ______________________________/   \\_ merge() _/  \\_ component_conf() _/

``tupletree.yaml`` is the first of: the path given, ``$TUPLETREE_CONF``, ``./tupletree.yaml``,
``~/.tupletree/tupletree.yaml``. Keys are flat (``nimbus.seeds: [...]``), values are YAML values.

An unknown key of a known family (``topology.…``, ``nimbus.…``) is an error that names the nearest key; a key outside
the known families is a user key and is accepted.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tupletree import _limits
from tupletree._keys import FAMILIES, FREE_FAMILIES, KEYS, KIND_WORDS, TOPOLOGY_FAMILIES, Key
from tupletree.errors import ConfigError

__all__ = [
    "KEYS",
    "Config",
    "Key",
    "component_conf",
    "defaults",
    "encode_conf",
    "load",
    "load_explicit",
    "merge",
    "parse_overrides",
    "render_yaml",
    "topology_part",
    "validate",
    "validate_component",
]

_PREFIX: Final = "TUPLETREE_"
_BY_VARIABLE: Final = {key.variable: key for key in KEYS.values()}
# Kubernetes sets such variables for every service; those of a service named tupletree-nimbus are ignored.
_SERVICE_LINK: Final = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_\w+)?)$")
_SERVICE_URL: Final = re.compile(r"^(tcp|udp)://")


class Config(dict[str, Any]):
    """A topology's or component's configuration: a dict that validates each key when set. A plain dict works too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.update(*args, **kwargs)

    def __setitem__(self, key: str, value: Any) -> None:
        validate({key: value})
        super().__setitem__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def set_num_workers(self, workers: int) -> None:
        self["topology.workers"] = workers

    def set_num_ackers(self, shards: int | None) -> None:
        self["topology.acker.executors"] = shards

    def set_message_timeout_secs(self, timeout_s: float) -> None:
        self["topology.message.timeout.secs"] = timeout_s

    def set_max_spout_pending(self, trees: int | None) -> None:
        self["topology.max.spout.pending"] = trees

    def set_max_task_parallelism(self, tasks: int | None) -> None:
        self["topology.max.task.parallelism"] = tasks

    def set_debug(self, on: bool) -> None:
        self["topology.debug"] = on


def defaults() -> dict[str, Any]:
    """Return a fresh copy of every key's default."""
    return {name: _fresh(key.default) for name, key in KEYS.items()}


def load(
    path: str | os.PathLike[str] | None = None,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the validated merge of defaults, file, environment and ``key=value`` overrides. Raises ConfigError."""
    return {**defaults(), **load_explicit(path, overrides, environ)}


def load_explicit(
    path: str | os.PathLike[str] | None = None,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the result of ``load`` without the defaults: only keys set explicitly."""
    environ = os.environ if environ is None else environ
    return {**_from_file(path, environ), **_from_environment(environ), **parse_overrides(overrides)}


def parse_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """Return ``key=value`` options as a validated configuration. Raises ConfigError."""
    conf: dict[str, Any] = {}
    for override in overrides:
        name, equals, text = override.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ConfigError(f"'-c {override}' must look like key=value, for example topology.workers=2")
        conf[name] = _parse(KEYS.get(name), text)
    validate(conf, source=" (given with -c)" if conf else "")
    return conf


def validate(conf: Mapping[str, Any], source: str = "") -> None:
    """Check every key and value. Raises ConfigError with a message that ends in ``source``, if given."""
    for name, value in conf.items():
        fault = _fault(name, value)
        if fault:
            raise ConfigError(fault + source)


def validate_component(conf: Mapping[str, Any]) -> None:
    """Check like ``validate``, and refuse keys that cannot be set per component. Raises ConfigError."""
    validate(conf)
    for name in conf:
        key = KEYS.get(name)
        if key is not None and not key.component_level:
            allowed = ", ".join(sorted(other.name for other in KEYS.values() if other.component_level))
            raise ConfigError(
                f"configuration key '{name}' cannot be set for one component; those that can are {allowed}"
            )


def merge(daemon_conf: Mapping[str, Any], topology_conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a running topology: the cluster's, overridden by the topology's own keys."""
    return {**daemon_conf, **topology_part(topology_conf)}


def topology_part(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that travel with a topology: the topology families and user keys, not the cluster's."""
    return {name: value for name, value in conf.items() if not _belongs_to_cluster(name)}


def component_conf(conf: Mapping[str, Any], component: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of one component: the topology's, overridden by the component's own."""
    own = {name: value for name, value in component.items() if name not in KEYS or KEYS[name].component_level}
    return {**conf, **own}


def encode_conf(conf: Mapping[str, Any]) -> str:
    """Return the configuration as canonical JSON. Raises ConfigError naming a key whose value is not valid JSON."""
    for name, value in conf.items():
        fault = _limits.value_fault(value)
        if fault:
            raise ConfigError(f"configuration key {_quoted(name)} {fault}")
        try:
            json.dumps(value, allow_nan=False, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"configuration key {_quoted(name)} must hold a JSON value: {error}") from None
    return json.dumps(dict(conf), sort_keys=True, separators=(",", ":"))


def render_yaml() -> str:
    """Return a tupletree.yaml of all defaults, with documentation. The source of ``deploy/conf/tupletree.yaml``."""
    lines = [
        "# Every configuration key of Tupletree with its default. Copy what you want to change to ./tupletree.yaml,",
        "# ~/.tupletree/tupletree.yaml or a file of your own ($TUPLETREE_CONF, --conf).",
        "# Written by: tupletree config list --yaml",
    ]
    family = ""
    for key in KEYS.values():
        if key.family != family:
            family = key.family
            lines += ["", f"# --- {family} " + "-" * (70 - len(family))]
        unit = f" [{key.unit}]" if key.unit else ""
        level = " (also for one component)" if key.component_level else ""
        lines += [f"# {key.doc}{unit}{level}", f"{key.name}: {json.dumps(key.default)}"]
    return "\n".join(lines) + "\n"


def _fresh(value: Any) -> Any:
    if isinstance(value, list):
        return list(value)
    return dict(value) if isinstance(value, dict) else value


def _belongs_to_cluster(name: str) -> bool:
    family = name.partition(".")[0]
    return family in FAMILIES and family not in TOPOLOGY_FAMILIES


def _fault(name: object, value: Any) -> str | None:
    """Return an error message for an invalid setting, or None."""
    if not isinstance(name, str) or not name:
        return f"configuration keys are strings such as 'topology.workers', not {_limits.shown(name)}"
    fault = _limits.value_fault(value)
    if fault:
        return f"configuration key {_quoted(name)} {fault}"
    key = KEYS.get(name)
    if key is not None:
        return _value_fault(key, value)
    family = name.partition(".")[0]
    if family not in FAMILIES or family in FREE_FAMILIES:
        fault = _limits.name_fault(name)
        return f"a configuration key {fault}" if fault else None
    return f"unknown configuration key {_quoted(name)}; did you mean '{_nearest(name[: _limits.MAX_NAME])}'?"


def _quoted(name: object) -> str:
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
    expected = _expectation(key)
    wrong = f"configuration key '{key.name}' takes {expected}, not {_limits.shown(value)}"
    if not _is_of_kind(key, value):
        return wrong
    if key.name == "topology.environment" and (fault := _limits.environment_fault(value)):
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
        case "strings":
            return _is_list(value, str) and len(value) > 0 and all(value)
        case "ports":
            return _is_list(value, int)
        case "map":
            return isinstance(value, Mapping) and all(isinstance(k, str) for k in value)
        case "any":
            return True


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _limits.MAX_INT


def _is_list(value: Any, of: type) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, of) and not isinstance(v, bool) for v in value)


def _expectation(key: Key) -> str:
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


def _from_file(path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> dict[str, Any]:
    found = _find_file(path, environ)
    if found is None:
        return {}
    try:
        content = _from_yaml(found.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration file {found}: {_one_line(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{found} is not valid YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{found} must hold lines like 'topology.workers: 2', not {type(content).__name__}")
    validate(content, source=f" (in {found})")
    return content


def _find_file(path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Path | None:
    named = path or environ.get("TUPLETREE_CONF")
    if named:
        if not Path(named).is_file():
            raise ConfigError(f"there is no configuration file {named}")
        return Path(named)
    home = environ.get("HOME")
    candidates = [Path("tupletree.yaml")] + ([Path(home, ".tupletree", "tupletree.yaml")] if home else [])
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    conf: dict[str, Any] = {}
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith(_PREFIX) or variable == "TUPLETREE_CONF":
            continue
        if _SERVICE_LINK.search(variable) or _SERVICE_URL.match(text):
            continue
        key = _BY_VARIABLE.get(variable)
        if key is not None:
            conf[key.name] = _parse(key, text)
            validate({key.name: conf[key.name]}, source=f" (in the environment as {variable})")
        elif variable.removeprefix(_PREFIX).partition("_")[0].lower() in FAMILIES - FREE_FAMILIES:
            nearest = difflib.get_close_matches(variable, _BY_VARIABLE, n=1, cutoff=0.0)[0]
            raise ConfigError(f"unknown configuration variable {variable}; did you mean {nearest}?")
    return conf


def _from_yaml(text: str) -> Any:
    """Parse YAML. Raises ValueError with a one-line message if ``text`` is not YAML."""
    import yaml  # imported lazily: a worker receives its configuration as JSON

    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise ConfigError(f"a value is nested more than {_limits.MAX_DEPTH} levels deep") from None
    except yaml.YAMLError as error:
        raise ValueError(_one_line(error)) from None


def _parse(key: Key | None, text: str) -> Any:
    """Parse a value: YAML, except that a string key takes any text and a list key takes ``a,b``."""
    try:
        value = _from_yaml(text)
    except ValueError:
        value = text
    if key is None or value is None:
        return value
    if key.kind == "str" and not isinstance(value, str):
        return text.strip()
    if key.kind == "strings" and not isinstance(value, list):
        return [part.strip() for part in text.split(",")]
    if key.kind == "ports" and not isinstance(value, list):
        return [int(part) if part.strip().isdecimal() else part for part in text.split(",")]
    return value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
