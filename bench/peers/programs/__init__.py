"""The word count as each peer's users write it. These run in the peers' own environments and import only ``marks``."""
