"""Exactly-once word counts on a cluster with random kill -9, compared with the truth: ``python -m bench.crashes``."""
