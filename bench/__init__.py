"""Benchmarks. See bench/README.md."""
