"""Connections to the stores of states and progress, one kind per file. Nothing here knows what is stored."""
