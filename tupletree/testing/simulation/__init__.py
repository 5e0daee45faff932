"""Topologies on a simulated network and clock, amid faults that a seed decides (``tupletree.testing.simulate``)."""

from __future__ import annotations
