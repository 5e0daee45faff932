"""Submission of topologies: uploads, validation, bundles on disk and their replication."""
