"""The structure of topology ids, and of the names of components and streams."""

from __future__ import annotations  # pure

from typing import Final

TREES_PREFIX: Final = "$trees/"
"""Begins the topology id under which an acker keeps the ledger of a namespace of trees."""


def topology_name(topology_id: str) -> str:
    """Return the name of a topology, given its id. Nimbus forms the id by appending a number and the time.

    The id of a namespace of trees is returned unchanged, also one like ``$trees/eu-2024-11``.
    """
    if topology_id.startswith(TREES_PREFIX):
        return topology_id
    name, *numbers = topology_id.rsplit("-", 2)
    return name if len(numbers) == 2 and all(number.isdigit() for number in numbers) else topology_id


def is_system(name: str) -> bool:
    """True if a component or stream of this name is the system's, not the user's."""
    return name.startswith(("__", "$"))
