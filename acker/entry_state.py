"""The state byte of an entry: two flags, and the cohort of the last update."""

from __future__ import annotations

OPEN = 128
"""The init has not arrived."""
FAILED = 64
"""A fail arrived before the init."""
COHORT = 63
"""The bit mask of the cohort. Cohorts are numbered 1 to 63."""
