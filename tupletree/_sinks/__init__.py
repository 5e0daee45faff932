"""Rows in databases, written together with a note of their transaction: shared by pipelines and connectors."""

from __future__ import annotations
