"""Runnable topologies, each under a page."""
