"""Savepoints: the states and positions of one checkpoint of a topology, as files that others read and write too."""
