"""The data pipeline: transactional batches that Spark processes."""
