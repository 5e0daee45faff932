"""Tools that operators switch on in a running topology: log levels, tuple sampling, tree tracing."""
