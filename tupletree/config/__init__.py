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

from tupletree.config.key import Key
from tupletree.config.keys import KEYS
from tupletree.config.layers import Config, component_conf, defaults, encode_conf, merge, render_yaml, topology_part
from tupletree.config.loading import load, load_explicit, parse_overrides, read_file
from tupletree.config.schema import json_schema, render_schema
from tupletree.config.topology_conf import TopologyConf
from tupletree.config.validation import faults, validate, validate_component

__all__ = [
    "KEYS",
    "Config",
    "Key",
    "TopologyConf",
    "component_conf",
    "defaults",
    "encode_conf",
    "faults",
    "json_schema",
    "load",
    "load_explicit",
    "merge",
    "parse_overrides",
    "read_file",
    "render_schema",
    "render_yaml",
    "topology_part",
    "validate",
    "validate_component",
]
