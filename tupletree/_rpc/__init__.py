"""gRPC between daemons: servers, channels, ports, and the one table between errors and status codes."""
