"""Every configuration key Tupletree knows: its default, kind, unit, range and one line of documentation.

The names are Storm's without the ``storm.`` prefix. The part before the first dot is the key's family. Keys of the
families ``topology``, ``transactional``, ``pipeline`` and ``spark`` travel with a topology; all others belong to the
cluster and cannot be changed by a topology. The ``spark`` family accepts any key that Spark understands.

``tupletree.config`` loads and checks values against this table; ``deploy/conf/tupletree.yaml`` is this table as YAML.
"""

from __future__ import annotations  # pure

from typing import Final

from tupletree.config.cluster_keys import ACKER, CLUSTER, DRPC, NIMBUS, SECURITY, SUPERVISOR, WORKER
from tupletree.config.key import Key
from tupletree.config.topology_keys import PIPELINE, TOPOLOGY

KEYS: Final[dict[str, Key]] = {
    key.name: key
    for group in (CLUSTER, SECURITY, NIMBUS, SUPERVISOR, WORKER, ACKER, DRPC, TOPOLOGY, PIPELINE)
    for key in group
}

FREE_FAMILIES: Final = frozenset({"spark"})
TOPOLOGY_FAMILIES: Final = frozenset({"topology", "transactional", "pipeline", "spark"})
FAMILIES: Final = frozenset({key.family for key in KEYS.values()} | FREE_FAMILIES | {"ui", "storm"})
