"""Reports of a worker: heartbeats, statistics, metrics, captured output."""
