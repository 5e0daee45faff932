"""The health of a cluster, as shown by ``tupletree health``, the REST interface and the web UI."""
