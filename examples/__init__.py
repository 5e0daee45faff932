"""Runnable topologies, each shorter than a page."""
