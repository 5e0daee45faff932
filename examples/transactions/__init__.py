"""The program ``python -m examples.transactional_words``: the topology on a whole cluster, with random kill -9."""
