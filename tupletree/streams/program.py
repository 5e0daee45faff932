"""The program of a stream, and the settings that every operator has."""

from __future__ import annotations

from typing import Any, Protocol, TypedDict

from tupletree.topology import Topology


class Program(Protocol):
    """The StreamBuilder, as its streams use it."""

    def topology(self) -> Topology:
        """Return the program as a topology."""

    def explain(self) -> str:
        """Return the components that the program becomes."""

    def run_local(self) -> None:
        """Run the program in this process."""

    def collect(self, stream: Any, count: int, seconds: float) -> list[Any]:
        """Return the first elements of a stream."""


class Placing(TypedDict, total=False):
    """Settings of every operator that can be a component.

    Attributes:
        name: the name of the operator; of its component, if it begins one.
        parallelism: the number of its executors; without it, that of its input, or else of the StreamBuilder.
    """

    name: str
    parallelism: int
