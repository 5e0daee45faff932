"""Transactional topologies: every batch of tuples takes effect exactly once.

    spout = MemoryTransactionalSpout({0: [["apple"], …]}, ["word"], 100)
    builder = TransactionalTopologyBuilder("global-count", "spout", spout, parallelism=3)
    builder.set_bolt("partial-count", BatchCount(), parallelism=5).shuffle_grouping("spout")
    builder.set_committer_bolt("sum", UpdateGlobalCount()).global_grouping("partial-count")
    topology = builder.create_topology()

docs/guides/transactions.md explains the model and what it asks of a spout and of a committer.
"""
