"""The configuration of a process, from ``tupletree.yaml``, the environment and the command line."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tupletree import _limits
from tupletree.config.key import Key
from tupletree.config.keys import FAMILIES, FREE_FAMILIES, KEYS
from tupletree.config.layers import defaults
from tupletree.config.validation import validate
from tupletree.errors import ConfigError

_PREFIX: Final = "TUPLETREE_"
_BY_VARIABLE: Final = {key.variable: key for key in KEYS.values()}
# Kubernetes sets such variables for every service. Variables of a service named tupletree-nimbus are ignored.
_SERVICE_LINK: Final = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP)(_\w+)?)$")
_SERVICE_URL: Final = re.compile(r"^(tcp|udp)://")


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
    conf = parse_assignments(overrides, option="-c ")
    validate(conf, source=" (given with -c)" if conf else "")
    return conf


def parse_assignments(assignments: Sequence[str], option: str = "") -> dict[str, Any]:
    """Return the keys and values of texts such as ``key=value``, not validated. ``option``: what stands before them.

    Raises:
        ConfigError: a text has another form.
    """
    conf: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ConfigError(f"'{option}{assignment}' must look like key=value, for example topology.workers=2")
        conf[name] = _parse(KEYS.get(name), text)
    return conf


def read_file(
    path: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
) -> tuple[Path | None, dict[str, Any]]:
    """Return the file that ``load`` reads, None if there is none, and its content, whose keys and values are unchecked.

    Raises:
        ConfigError: the file is missing, cannot be read or is not a mapping in YAML.
    """
    found = _find_file(path, os.environ if environ is None else environ)
    if found is None:
        return None, {}
    try:
        content = _from_yaml(found.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration file {found}: {_one_line(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{found} is not valid YAML: {error}") from None
    if content is not None and not isinstance(content, dict):
        raise ConfigError(f"{found} must hold lines like 'topology.workers: 2', not {type(content).__name__}")
    return found, content or {}


def _from_file(path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> dict[str, Any]:
    found, content = read_file(path, environ)
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
    if key.kind in ("strings", "classes") and not isinstance(value, list):
        return [part.strip() for part in text.split(",")]
    if key.kind == "ports" and not isinstance(value, list):
        return [int(part) if part.strip().isdecimal() else part for part in text.split(",")]
    return value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
