"""What ``python -m examples.transactional_words`` does: the topology on a whole cluster, with kill -9 all around it."""
