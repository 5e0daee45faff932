"""Other stream processors on the same word count: see bench/peers/README.md."""
