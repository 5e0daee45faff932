"""What every daemon process is made of: run loop, logging, readiness, HTTP, announcing its ports."""
