"""The structure of topology ids."""

from __future__ import annotations  # pure


def topology_name(topology_id: str) -> str:
    """Return the name of a topology, given its id. Nimbus forms the id by appending a number and the time."""
    name, *numbers = topology_id.rsplit("-", 2)
    return name if len(numbers) == 2 and all(number.isdigit() for number in numbers) else topology_id
