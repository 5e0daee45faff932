"""A whole cluster of real processes on this machine: for tests, ``tupletree dev`` and the demo."""
