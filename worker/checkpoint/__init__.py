"""The tasks of a worker as participants in checkpoints."""
