"""The leader of nimbus: one loop reads the state of the cluster, plans changes and writes them."""
