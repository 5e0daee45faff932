"""States in a store that all machines share, with a copy in RocksDB on the machine that reads them. See provider.py."""
