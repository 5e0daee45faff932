"""The Nexmark benchmark: queries over the events of an auction site."""
