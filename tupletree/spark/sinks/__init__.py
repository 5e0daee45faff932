"""Sinks of pipelines, one file each."""
