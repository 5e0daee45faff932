"""The health of a cluster, as ``tupletree health``, REST and the UI state it."""
