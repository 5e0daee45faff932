"""The checkpoint protocol of topologies with stateful bolts: wiring, coordination and the durable record."""
