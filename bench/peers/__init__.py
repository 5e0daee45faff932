"""Word count on other stream processors: see bench/peers/README.md."""
