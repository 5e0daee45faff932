"""What the ids of topologies are made of."""

from __future__ import annotations


def topology_name(topology_id: str) -> str:
    """The name that a topology was submitted under; nimbus appends a number and the time."""
    name, *numbers = topology_id.rsplit("-", 2)
    return name if len(numbers) == 2 and all(number.isdigit() for number in numbers) else topology_id
