"""Links to other workers and to ackers, and the batching of messages to them."""
