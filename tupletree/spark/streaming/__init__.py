"""Both ways between topologies and Spark Structured Streaming."""
