"""The page of all configuration keys, made from the table of keys."""

from __future__ import annotations

import json
from html import escape
from itertools import groupby
from typing import Final

from tupletree.config import KEYS, Key
from tupletree.config.changes import FIXED, change_of
from tupletree.config.keys import TOPOLOGY_FAMILIES
from tupletree.config.validation import expectation

HEAD: Final = """# Configuration

Every key with what it takes, its default, its meaning and its scope: a key of the *cluster* belongs to the daemons of a
machine; a key of a *topology* travels with it; some keys of a topology can also be set for one *component*. The last
fact says how `tupletree config set` changes a key in a running topology: *live* in the running workers, with a
*restart* of its workers, or not at all, because it is *fixed* for the reason given. A key of the cluster changes with
the restart of a daemon.

Sources of values, in rising precedence: the defaults, `tupletree.yaml` (the first of `--conf`, `$TUPLETREE_CONF`,
`./tupletree.yaml` and `~/.tupletree/tupletree.yaml`), environment variables, `-c KEY=VALUE`, the topology's
configuration, and the component's. The variable of a key is its name in capitals with underscores, after `TUPLETREE_`:
for example `TUPLETREE_NIMBUS_SEEDS='["a.example:6627"]'`. Values are YAML. An unknown key of a known family is refused
with the nearest key; a key outside the known families is yours, and every component receives it.

    tupletree config list topology.      # these keys with the values that hold here
    tupletree config list --yaml         # a commented tupletree.yaml of all defaults
"""
TITLES: Final = {
    "zookeeper": "ZooKeeper",
    "tls": "TLS",
    "ui": "Web UI",
}


def scope(key: Key) -> str:
    """Return where a key can be set."""
    if key.component_level:
        return "topology, component"
    return "topology" if key.family in TOPOLOGY_FAMILIES else "cluster"


def changes(key: Key) -> str:
    """Return how a key of a topology changes while the topology runs."""
    how = change_of(key.name)
    if how == "daemon":
        return ""
    reason = f": {escape(FIXED[key.name])}" if how == "fixed" else ""
    return f" · changes: <em>{how}</em>{reason}"


def entry(key: Key) -> str:
    """Return the HTML of one key; its name is its anchor."""
    default = escape(json.dumps(key.default))
    facts = f"{escape(expectation(key))} · default <code>{default}</code> · {scope(key)}{changes(key)}"
    return (
        f'<dt id="{key.name}"><code>{key.name}</code>'
        f'<a class="headerlink" href="#{key.name}" title="Permanent link">&para;</a></dt>\n'
        f'<dd><span class="key-facts">{facts}</span>{escape(key.doc)}</dd>'
    )


def configuration_page() -> str:
    """Return the Markdown of the page."""
    parts = [HEAD]
    for family, keys in groupby(sorted(KEYS.values(), key=lambda key: key.family), key=lambda key: key.family):
        entries = "\n".join(entry(key) for key in keys)
        parts.append(f'## {TITLES.get(family, family)}\n\n<dl class="keys">\n{entries}\n</dl>\n')
    return "\n".join(parts)
