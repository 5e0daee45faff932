"""gRPC between daemons: servers, channels, ports, and the mapping between errors and status codes."""
