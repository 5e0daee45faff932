"""The word count as each peer's users write it. Programs run in the peers' environments and import only ``marks``."""
