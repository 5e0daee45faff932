"""What we measure: see bench/README.md."""
