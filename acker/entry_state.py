"""What an entry's state byte says: two flags, and the cohort of its last update."""

from __future__ import annotations

OPEN = 128
"""The init has not come."""
FAILED = 64
"""A fail came before the init."""
COHORT = 63
"""The bits of the cohort, which is from 1 to this."""
