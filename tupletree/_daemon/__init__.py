"""Common parts of all daemon processes: run loop, logging, readiness, HTTP, port announcement."""
