"""Where committed values live: a small contract, and implementations for SQLite, Redis and PostgreSQL."""
