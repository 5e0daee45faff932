"""Storage of committed values: a small contract, and implementations for SQLite, Redis and PostgreSQL."""

from __future__ import annotations

from tupletree.transactional.databases.contract import Database
from tupletree.transactional.databases.memory import MemoryDatabase
from tupletree.transactional.databases.postgres import PostgresDatabase
from tupletree.transactional.databases.redis import RedisDatabase
from tupletree.transactional.databases.sqlite import SqliteDatabase

__all__ = ["Database", "MemoryDatabase", "PostgresDatabase", "RedisDatabase", "SqliteDatabase"]
