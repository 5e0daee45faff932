"""Statistics of topologies and ackers, from the reports of workers and ackers."""
